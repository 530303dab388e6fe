"""Learners of a linear map by a loss of the points it embeds."""
