"""Training: datasets, problems, solvers, stopping rules and callbacks."""
