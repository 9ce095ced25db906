"""Programs looked at before they are run: tried, traced operator by operator, timed for a few steps."""
