"""A class as data: its questions and reports, and the numbers and pictures of its lessons."""
