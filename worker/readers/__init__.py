"""Waiting readers: sandboxes that have loaded all that reading a program takes, each for one program alone."""
