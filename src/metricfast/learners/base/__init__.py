"""What learners have in common: points and tuples that are given, and what a metric can do."""
