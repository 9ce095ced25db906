"""One node: agent tasks, supervisor, launch, sandbox, monitor; and the runtime of generated programs.

Start reading at `tasks` (what control asks), `supervisor` (one attempt), `launch` (inside the sandbox) and `runtime.run`
(inside a rank); docs/architecture.md has the map.
"""
