"""A model in stages: found, timed, trained and put together again."""
