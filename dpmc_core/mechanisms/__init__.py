"""The private methods by paper or family, their nonprivate counterparts, and the baselines."""
