"""The command line `metricfast`: learners for tables in files."""
