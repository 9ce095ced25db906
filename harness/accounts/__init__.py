"""People: users, projects, roles, API tokens."""
