"""Every way to run a job, priced, and which one is offered."""
