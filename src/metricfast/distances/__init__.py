"""Distances of points under a map, the neighbours they make, and the gradient by the map."""
