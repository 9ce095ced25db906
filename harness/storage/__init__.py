"""Disk of the store by project: what it takes, what it may take, and what nobody names any more."""
