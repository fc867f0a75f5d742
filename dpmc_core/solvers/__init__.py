"""Optimisation and estimation, with no privacy in it."""
