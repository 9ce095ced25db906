"""One command that runs everything on one machine: broker, portal, control and a node.

`python -m harness.stack run` keeps them alive until Ctrl-C; `demo` also trains a sample through the public API.
This package starts programs and asks them over HTTP; it imports neither Django nor torch (`bootstrap` excepted).
"""
