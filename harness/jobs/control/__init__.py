"""What the control process does with jobs: place, start, take in events, reconcile, clean up."""
