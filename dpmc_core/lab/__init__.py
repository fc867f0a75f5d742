"""What is done with the core: sweeps, studies, protocols, papers, teaching, commands."""
