"""Learners from pairs, triplets and quadruplets of points."""
