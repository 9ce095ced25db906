"""The second factor of a sign-in: a code of an app (TOTP, RFC 6238, by django-otp), or one kept for a lost phone.

It belongs to the sign-in in a browser; API tokens are secrets of their own and go on without.
"""

from __future__ import annotations

import secrets
from base64 import b32encode
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice
from django_otp.util import random_hex

from harness.accounts.access import require_admin, token_of
from harness.accounts.audit import audit_write
from harness.accounts.models import RecoveryCode, User
from harness.accounts.services import token_digest
from harness.accounts.sessions import sessions_end
from harness.errors import Conflict, Forbidden, Invalid, NotFound

RECOVERY_CODES = 10
_RECOVERY_BYTES = 10
"""80 random bits: no table of hashes reaches them."""
_KEY_BYTES = 20
"""As RFC 4226 recommends for SHA-1."""


def second_factor_get(user: User) -> TOTPDevice | None:
    """The person's app; None: the password alone signs them in."""
    return TOTPDevice.objects.filter(user=user, confirmed=True).first()


def second_factor_id(user: User) -> str:
    """Tells the person's app from every other one they had or will have; empty without one."""
    device = second_factor_get(user)
    return str(device.persistent_id) if device else ""


def with_second_factor(users: QuerySet[User]) -> QuerySet[User]:
    """Each with `has_second_factor`."""
    return users.annotate(has_second_factor=Exists(TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)))


def recovery_codes_left(user: User) -> int:
    """How many of the person's recovery codes were not used."""
    return RecoveryCode.objects.filter(user=user, used_at=None).count()


def key_make() -> str:
    """A new secret for an app, in hexadecimal digits."""
    return str(random_hex(_KEY_BYTES))


def key_words(key: str) -> str:
    """The secret as people type it into an app: base 32, in groups of four."""
    text = b32encode(bytes.fromhex(key)).decode()
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def key_address(user: User, key: str) -> str:
    """The `otpauth:` address that an app reads from a picture."""
    return str(TOTPDevice(user=user, key=key).config_url)


def second_factor_set(*, user: User, key: str, code: str, keep_session: str | None = None) -> list[str]:
    """Ask for codes of the app with that secret from now on, once it has shown one; the answer is the recovery codes.

    Signs the person out everywhere but in the session of key `keep_session`: those signed in by the password alone.
    Raises `Forbidden`, `Conflict`, `Invalid`.
    """
    if token_of(user) is not None:
        raise Forbidden("A token cannot change how its person signs in.", hint="Use the Account page.")
    with transaction.atomic():
        if second_factor_get(User.objects.select_for_update().get(pk=user.pk)):
            raise Conflict("A second factor is already set up.", hint="Remove it first.")
        device = TOTPDevice(user=user, name="app", key=key)
        if not device.verify_token(_tidy(code)):
            raise Invalid(
                "That code is not valid now.",
                field="code",
                hint="Use the newest code from the app; its clock must agree with the server's.",
            )
        sessions_end(user=user, but_key=keep_session)
        audit_write(user, "second_factor_set", user.username)
        return _codes_make(user)


def second_factor_remove(*, actor: User | None, user: User) -> None:
    """Let the password alone sign the person in again: by themselves, or by an admin where the phone is lost.

    Raises `Forbidden`, `NotFound`.
    """
    if actor is not None and not (actor == user and token_of(actor) is None):
        require_admin(actor)
    with transaction.atomic():
        if not TOTPDevice.objects.filter(user=user).delete()[0]:
            raise NotFound(f"{user.username} has no second factor.", hint="They sign in with the password alone.")
        RecoveryCode.objects.filter(user=user).delete()
        audit_write(actor, "second_factor_remove", user.username)


def recovery_codes_renew(*, user: User) -> list[str]:
    """New recovery codes; those of before no longer work. Raises `Forbidden`, `NotFound`."""
    if token_of(user) is not None:
        raise Forbidden("A token cannot change how its person signs in.", hint="Use the Account page.")
    with transaction.atomic():
        if second_factor_get(User.objects.select_for_update().get(pk=user.pk)) is None:
            raise NotFound("There is no second factor yet.", hint="Set one up first.")
        audit_write(user, "recovery_codes_renew", user.username)
        return _codes_make(user)


def second_factor_wait(user: User) -> timedelta | None:
    """How long codes of the app are refused after wrong ones (1 s, 2 s, 4 s, ..., as django-otp has it); None: not."""
    device = second_factor_get(user)
    allowed, why = device.verify_is_allowed() if device else (True, None)
    return None if allowed or not why else max(timedelta(0), why["locked_until"] - timezone.now())


def second_factor_verify(*, user: User, code: str) -> bool:
    """Whether it is the code of the app at this moment, or a recovery code; each is good once."""
    text = _tidy(code)
    with transaction.atomic():
        device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=True).first()
        if device is None:
            return False
        if text.isdecimal() and len(text) == device.digits:
            return bool(device.verify_token(text))
        unused = RecoveryCode.objects.filter(user=user, digest=token_digest(text), used_at=None)
        if not unused.update(used_at=timezone.now()):
            return False
        device.throttle_reset()
        audit_write(user, "recovery_code_use", user.username, left=recovery_codes_left(user))
        return True


def _codes_make(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    codes = [b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create([RecoveryCode(user=user, digest=token_digest(code)) for code in codes])
    return ["-".join(code[start : start + 4] for start in range(0, len(code), 4)) for code in codes]


def _tidy(code: str) -> str:
    return "".join(code.lower().split()).replace("-", "")
