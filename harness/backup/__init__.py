"""A whole installation in one file, and back again: database, store, secrets if wished. See docs/operator-guide.md."""
