"""Use the core for sweeps, studies, audits, protocols, papers, classes and commands."""
