"""From what ranks print and write to what control reads: pipes, logs, event files, the way to the broker."""
