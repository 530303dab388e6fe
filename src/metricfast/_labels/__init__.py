"""Distances between labels, and neighbours in label space."""
