"""`python -m harness.bucket check | status | push | pull [--json]`; `dlh store` calls it.

The installation is the one named by `DLH_HOME` (and `DLH_STORE`, `DLH_DATABASE_URL`), its object store by `DLH_S3_URL`.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
import time
from typing import Any

from harness.env import SettingsError, env_home
from harness.errors import EXIT_INTERRUPTED, refusal_write
from harness.progress import Tell, Teller
from worker.words import duration_words, size_words

EXIT_AWAY, EXIT_REFUSED = 1, 2
_NONE = "there is no object store: DLH_S3_URL is not set"
_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE})
_OF_RIGHTS = frozenset({errno.EACCES, errno.EPERM})


def check(_tell: Tell) -> tuple[str, dict[str, Any]]:
    """Whether it can be used. Raises `BucketTrouble`."""
    from harness.bucket.mirror import mark_check
    from harness.bucket.state import state_of

    bucket = _bucket()
    took_s = bucket.check()
    mark_check(bucket, claim=False)
    state = state_of(bucket.given)
    text = f"s3://{bucket.given.place} answers; to write, read, list and remove took {took_s * 1000:.0f} ms."
    if state.complete_s:
        text += f"\n  Everything was copied {duration_words(time.time() - state.complete_s)} ago."
    return text, {"place": bucket.given.place, "took_s": took_s, "complete_s": state.complete_s}


def status(_tell: Tell) -> tuple[str, dict[str, Any]]:
    """How the copy stands, as the last pass left it: the object store is not asked."""
    from dataclasses import asdict

    from harness.bucket.status import bucket_status

    found = bucket_status()
    if found is None:
        raise SettingsError(_NONE)
    text = f"{found.url}: {found.state}"
    if found.complete_s:
        text += f"; everything was copied {duration_words(time.time() - found.complete_s)} ago"
    text += f".\n  {found.files} files ({size_words(found.bytes)}) of {found.units} datasets and jobs are there"
    text += f", {found.waiting} datasets and jobs wait." if found.waiting else "."
    if found.text:
        text += f"\n  {found.text}; {found.step}."
    return text, asdict(found)


def push(tell: Tell) -> tuple[str, dict[str, Any]]:
    """Copy now what control copies every few seconds. Raises `BucketTrouble`."""
    from harness.bucket.mirror import mirror_pass
    from harness.bucket.state import state_of
    from harness.bucket.trouble import BucketTrouble

    bucket = _bucket()
    if not mirror_pass(tell):
        told = state_of(bucket.given)
        text, step = told.trouble or "not everything could be copied", told.step or "see the log of control"
        raise BucketTrouble(text, step, away=True)
    return f"s3://{bucket.given.place} has everything.", {"place": bucket.given.place}


def pull(tell: Tell) -> tuple[str, dict[str, Any]]:
    """Bring back what is not here. Raises `BucketTrouble`."""
    from dataclasses import asdict

    from harness.bucket.pull import pull as bring

    bucket = _bucket()
    told = bring(bucket, tell)
    text = f"{told.files} files ({size_words(told.bytes)}) of {told.units} datasets and jobs came back."
    if told.missing:
        text += f"\n  {told.missing} files are listed in s3://{bucket.given.place}, but not there as they were."
    return text, asdict(told)


def _bucket() -> Any:
    from harness.bucket.client import bucket_get

    bucket = bucket_get()
    if bucket is None:
        raise SettingsError(_NONE)
    return bucket


def _disk_words(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    step = ""
    if error.errno in _OF_THE_DISK:
        step = "; free space on that disk or mend it, then run the same command again"
    elif error.errno in _OF_RIGHTS:
        step = "; run the same command as the user of the harness"
    return f"{error.strerror or error}{where}{step}"


_COMMANDS = {"check": check, "status": status, "push": push, "pull": pull}


def main() -> int:
    """Command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m harness.bucket", description=__doc__)
    parser.add_argument("command", choices=sorted(_COMMANDS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        os.environ["DLH_HOME"] = str(env_home())
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
        import django

        django.setup()
    except SettingsError as error:
        refusal_write(str(error), lead="Cannot continue", code="refused", as_json=given.json)
        return EXIT_REFUSED
    from django.db import DatabaseError

    from harness.bucket.trouble import BucketTrouble

    try:
        with Teller(quiet=given.json) as tell:
            text, values = _COMMANDS[given.command](tell)
    except (SettingsError, DatabaseError) as error:
        refusal_write(str(error), lead="Cannot continue", code="refused", as_json=given.json)
        return EXIT_REFUSED
    except BucketTrouble as error:
        code = "away" if error.away else "refused"
        refusal_write(str(error), lead="The object store", code=code, as_json=given.json)
        return EXIT_AWAY if error.away else EXIT_REFUSED
    except OSError as error:
        refusal_write(_disk_words(error), lead="Cannot continue", code="refused", as_json=given.json)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        text = "what was copied is kept; run the same command again to continue"
        refusal_write(text, lead="Interrupted", code="interrupted", as_json=given.json)
        return EXIT_INTERRUPTED
    sys.stdout.write((json.dumps(values) if given.json else text) + "\n")
    return EXIT_AWAY if given.command == "status" and not _is_good(values["state"]) else 0


def _is_good(state: str) -> bool:
    from harness.bucket.status import GOOD

    return state in GOOD


if __name__ == "__main__":
    sys.exit(main())
