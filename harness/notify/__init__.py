"""Telling people of what happened to their jobs and projects, by e-mail and webhook."""
