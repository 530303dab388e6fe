"""Estimators that search, classify and regress by the neighbours of points under a metric."""
