"""What a job will cost, before it runs: programs read by a node, ways to run them priced, one offered and accepted."""
