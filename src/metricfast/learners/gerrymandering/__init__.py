"""Neighbourhood gerrymandering: learners that optimise the k-NN vote itself."""
