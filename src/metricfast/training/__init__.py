"""Training: objectives, solvers, and what goes on between them."""
