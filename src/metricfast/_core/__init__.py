"""What everybody may use: checks of arguments, arrays, files, and the compiled kernels."""
