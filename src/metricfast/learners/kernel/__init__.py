"""Learners in the space of a kernel."""
