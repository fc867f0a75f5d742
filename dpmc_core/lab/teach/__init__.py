"""A class as data, lessons, and the words of the field."""
