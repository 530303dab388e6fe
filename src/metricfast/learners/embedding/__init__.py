"""Learners of any embedding by any loss."""
