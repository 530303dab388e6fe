"""Distances between labels."""
