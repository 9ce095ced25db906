"""How a node without the store's folder gets what a run needs and gives back what it made: by the portal's HTTP API.

Only the agent and its supervisors speak it; ranks see local folders. See docs/decisions/022.
"""
