"""Compute what charts and tables show, as named tuples of arrays; nothing is drawn here.

These views may hold raw and held-out ratings. They are for the owner to look at and must never be
released.
"""
