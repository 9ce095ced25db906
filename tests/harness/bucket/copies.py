"""What lies in a store, and what the object store lists of it."""

from __future__ import annotations

import json


def tree(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for name in ("jobs", "datasets")
        for path in (root / name).rglob("*")
        if path.is_file() and path.name != "packed.tree.json"
    }


def listed(bucket, unit):
    return {row["path"]: row for row in json.loads(bucket.text_get(f"units/{unit}.json"))["files"]}
