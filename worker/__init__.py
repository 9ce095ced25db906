"""One node: agent tasks, supervisor, launch, sandbox, monitor; and the runtime of generated programs.

Start reading at `tasks` (what control asks), `supervisor` (one attempt), `launch` (in the sandbox) and `runtime.run`
(in a rank); docs/architecture.md has the map.
"""
