"""Parameter servers: each rank keeps a shard of the weights and their optimizer; workers pull and push by sockets."""
