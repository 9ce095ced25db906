"""Time, memory and energy of a run before it runs: features, fits, intervals, predictions."""
