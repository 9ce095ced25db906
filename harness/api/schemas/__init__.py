"""Shapes of what the API takes and gives. Units are in the names; examples come from a run of the sample job."""
