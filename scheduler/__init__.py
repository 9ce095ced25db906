"""Scheduling: pure functions of values, no clock, no I/O."""
