"""Learners that solve for the metric: sums over the data, then a decomposition."""
