"""What a picture or a table shows, computed from core objects: named tuples of arrays, no drawing.

Raw ratings and held-out ratings go into these views: they are for looking at, never released.
"""
