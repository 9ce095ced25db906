"""Jobs: specs, programs, states, attempts, telemetry, results."""
