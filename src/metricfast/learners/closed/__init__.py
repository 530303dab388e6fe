"""Learners with a closed-form solution: sums over the data, then a matrix decomposition."""
