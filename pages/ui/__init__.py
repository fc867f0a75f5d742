"""What several screens share: charts, widgets, the data in a session, running jobs and sweeps."""
