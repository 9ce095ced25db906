#!/bin/sh
# Finds a Python that is new enough and hands over to deploy/setup.py with the same arguments.
#
#   deploy/setup.sh [run|test]        PYTHON=/path/to/python3.12 chooses the interpreter
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seen=""
for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3.14 python3; do
  found=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  seen="$seen $candidate=$found"
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    exec "$candidate" "$here/setup.py" "$@"
  fi
done
echo "set-up: Python 3.11 or newer is needed; found:${seen:- none}." >&2
echo "  next: install one (Debian, Ubuntu: apt-get install python3 python3-venv python3-dev)" >&2
echo "        or name one: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
