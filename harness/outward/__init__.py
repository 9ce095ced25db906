"""Requests to hosts that people name: where they may go, and connections that end in time."""
