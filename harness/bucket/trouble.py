"""What goes wrong with an object store, in words that name the setting and the next step."""

from __future__ import annotations

from typing import Any

from harness.env import S3Settings


class BucketTrouble(Exception):
    """The object store did not do what was asked. `away`: it may later, by itself; else a person must do something."""

    def __init__(self, text: str, step: str, *, away: bool = False) -> None:
        super().__init__(text)
        self.text, self.step, self.away = text, step, away

    def __str__(self) -> str:
        return f"{self.text}; {self.step}"


_NEEDED = "on the bucket s3:ListBucket, and on what is in it s3:GetObject, s3:PutObject, s3:DeleteObject"
_WRONG: dict[str, tuple[str, str]] = {
    "InvalidAccessKeyId": ("{endpoint} does not know the key of DLH_S3_KEY", "correct DLH_S3_KEY, or DLH_S3_ENDPOINT"),
    "SignatureDoesNotMatch": (
        "the secret of DLH_S3_SECRET is not that of the key in DLH_S3_KEY",
        "correct DLH_S3_SECRET (or the file that DLH_S3_SECRET_FILE names)",
    ),
    "AccessDenied": ("the key of DLH_S3_KEY may not do that in {place}", f"allow it {_NEEDED}"),
    "NoSuchBucket": ("there is no bucket {bucket} at {endpoint}", "make it, or correct DLH_S3_URL"),
    "RequestTimeTooSkewed": (
        "the clocks of this machine and of {endpoint} differ too much",
        "set both by NTP: timedatectl set-ntp true",
    ),
    "AuthorizationHeaderMalformed": ("{bucket} is in another region than {region}", "correct DLH_S3_REGION"),
}
_SAME = {
    "403": "AccessDenied", "AllAccessDisabled": "AccessDenied", "301": "AuthorizationHeaderMalformed",
    "PermanentRedirect": "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException": "AuthorizationHeaderMalformed", "InvalidBucketName": "NoSuchBucket",
}  # fmt: skip
_ABSENT = frozenset({"NoSuchKey", "404", "NoSuchVersion", "PreconditionFailed", "412"})
"""The last two: another object than was asked for lies there."""


def trouble_of(error: BaseException, given: S3Settings) -> BucketTrouble | None:
    """What an error of s3fs, botocore or the network means; None for an object that is not there."""
    code = code_of(error)
    if code in _ABSENT or (not code and isinstance(error, FileNotFoundError)):
        return None
    endpoint = given.endpoint or f"Amazon S3 in {given.region}"
    names = {"place": f"s3://{given.place}", "bucket": given.bucket, "region": given.region, "endpoint": endpoint}
    known = _WRONG.get(_SAME.get(code, code))
    if known is not None:
        text, step = (part.format(**names) for part in known)
        return BucketTrouble(text, step)
    said = " ".join(str(error).split())[:300] or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return BucketTrouble(
            f"the certificate of {endpoint} is not trusted here: {said}",
            "name a file with the certificate of its authority by DLH_S3_CA_FILE",
        )
    return BucketTrouble(
        f"the object store at {endpoint} does not answer as it should: {said}",
        "look whether it runs and whether DLH_S3_ENDPOINT is right; it is tried again by itself",
        away=True,
    )


def is_answered(error: BaseException) -> bool:
    """Whether something answered, whatever it said: then the object store is there."""
    unread = isinstance(error, FileNotFoundError | LookupError) or type(error).__name__ == "ResponseParserError"
    return bool(code_of(error)) or unread


def code_of(error: BaseException) -> str:
    """The code in the server's answer, where an error came of one."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        response: Any = getattr(link, "response", None)
        if isinstance(response, dict) and isinstance(response.get("Error"), dict):
            return str(response["Error"].get("Code", ""))
        link = link.__cause__ or link.__context__
    return ""
