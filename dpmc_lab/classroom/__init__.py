"""Model a class as data: its questions and reports, and the numbers and pictures of its lessons."""

EPSILON = 2.0  # of an answer, where nobody says
MAX_PHONES = 1000  # a room has no place for more
CLASS_SIZE = 30  # simulated phones
