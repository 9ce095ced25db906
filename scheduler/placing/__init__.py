"""What `place` works with: the pool as counts and spans, the ledger, devices given out, reasons for waiting."""
