"""Scheduling: pure functions of values, no clock, no I/O.

Start reading at `place` (one decision), `estimate` (one run on one set of devices), `recommend` (an offer), `admit` (a
promise) and `simulate.engine` (a replay).
"""
