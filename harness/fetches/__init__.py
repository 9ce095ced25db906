"""Datasets from a web address: control fetches the file into an upload, which then is like any other."""
