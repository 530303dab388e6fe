"""Distances of points under a map, nearest neighbours, and gradients by the map."""
