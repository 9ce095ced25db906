"""Control plane: the Django project, its apps, the API, the client and the local stack.

Start reading at `urls` (what people reach), `jobs.services` (what they ask), `celery` (what control does, and when) and
`jobs.control.tick` (one decision carried out); docs/architecture.md has the map.
"""
