"""Saved views of the list of jobs."""
