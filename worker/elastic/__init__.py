"""A gang that outlives its ranks, from outside: its processes here and on other nodes, its width, its rescue."""
