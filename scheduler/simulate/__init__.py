"""Replay of traces through the scheduler's own `plan` and `place`: readers, tables, rules, engine, metrics, report."""
