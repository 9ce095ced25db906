"""Dataset to profile to suggestion to readable program; pure functions of values and files.

Start reading at `profile.run`, `resolve`, `suggest` and `render`.
"""
