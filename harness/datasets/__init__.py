"""Datasets: resumable uploads, profiles, the content-addressed store."""
