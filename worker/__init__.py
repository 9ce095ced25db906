"""One node: agent tasks, supervisor, launch, sandbox, monitor; and the runtime of generated programs."""
