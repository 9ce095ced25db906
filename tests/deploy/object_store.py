"""An object store as compose and chart are told of it, and what the harness then reads."""

import json
import re

from harness.env import S3Settings, s3_settings

URL, ENDPOINT, REGION = "s3://bucket/prefix", "https://objects.example.org:9000", "eu-1"


SIGNED_IN = {"portal", "control"}


def settings_in(environment, folder, monkeypatch):
    """What the harness reads, where a part is given this environment and each file holds its own name."""
    for name, value in environment.items():
        if name.startswith("DLH_S3_"):
            if name.endswith("_FILE") and value:
                file = folder / value.rpartition("/")[2]
                file.write_text(f"{file.name}\n")
                value = str(file)
            monkeypatch.setenv(name, value)
    return s3_settings()


WANTED = S3Settings("bucket/prefix", ENDPOINT, REGION, "s3_key", "s3_secret")


def knows(told):
    """Whether anything in it is of the object store."""
    return re.search(r"DLH_S3|s3_key|s3_secret|bucket", json.dumps(told)) is not None
