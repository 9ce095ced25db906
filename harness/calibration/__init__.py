"""Calibration: measure what devices do, fit their models, compare forecasts with what came true."""
