"""Base classes of learners, and functions that these use."""
