"""A run that outlives its ranks, from inside: its line to the gang, its copies in memory."""
