"""Has devices, links and finished jobs measured, and fits by them what `harness.calibration` knows of devices."""
