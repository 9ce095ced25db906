"""The pool: nodes and their devices."""
