"""The public HTTP API (django-ninja)."""
