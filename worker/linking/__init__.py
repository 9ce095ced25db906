"""The link between two nodes, timed by their agents: `part` is what one node does, `line` the connection."""
