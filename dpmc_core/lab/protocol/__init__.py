"""Learning without a trusted recommender: parties, the messages between them, and attacks."""
