"""Foundations of all modules: checks of arguments, arrays, files, and the compiled kernels."""
