"""Model a class as data: its questions and reports, and the numbers and pictures of its lessons."""

EPSILON = 2.0  # of an answer, by default
MAX_PHONES = 1000  # that a room has places for
CLASS_SIZE = 30  # simulated phones
