"""What is done with the core: sweeps, studies, audits, protocols, papers, classes, commands."""
