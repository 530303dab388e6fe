"""Learners by the votes of nearest neighbours."""
