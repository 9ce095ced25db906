"""Who of an identity provider signs in as whom: known by issuer and subject. An address alone never leads to an account
that is there already; its person links it while signed in, or an admin allows it for a while."""

from __future__ import annotations

import logging
import unicodedata
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from harness.accounts.access import require_admin, token_of
from harness.accounts.audit import audit_write
from harness.accounts.keeping import admins_hold
from harness.accounts.models import Identity, User
from harness.accounts.names import name_check
from harness.accounts.provider import CLOCKS_APART_S, Told
from harness.accounts.services import user_update
from harness.accounts.sessions import sessions_end
from harness.env_oidc import OidcSettings
from harness.errors import Conflict, Forbidden, Invalid, NotFound

log = logging.getLogger(__name__)
LINK_ALLOWED_FOR = timedelta(days=7)


def identity_signin(*, told: Told, oidc: OidcSettings) -> User:
    """The user who signs in: the one who is linked, else the one whose link an admin allowed, else a new one where the
    settings say so. Raises `Forbidden`, `Conflict`."""
    _allowed_check(told, oidc)
    try:
        with transaction.atomic():
            admins_hold()  # before the row: two who lose their right at once would wait for each other
            identity = _identity_of(told) or _allowed_link(told) or _account_make(told, oidc)
            user = User.objects.select_for_update().get(pk=identity.user_id)
            if not user.is_active:
                raise Forbidden(
                    f"The account {user.username} is disabled.", hint="Ask an admin of this installation to enable it."
                )
            Identity.objects.filter(pk=identity.pk).update(used_at=timezone.now())
            _admin_by_group(user, identity, told, oidc)
            _address_take(user, told)
    except IntegrityError as error:  # two first sign-ins at once
        raise Conflict("This account was made a moment ago.", hint="Sign in again.") from error
    log.info("sign-in by the identity provider: user %s, identity %s", user.username, identity.pk)
    return user


def identity_link(*, user: User, told: Told, oidc: OidcSettings) -> Identity:
    """Let this person of the provider sign in as the user, who is signed in. Raises `Forbidden`, `Conflict`."""
    if token_of(user) is not None:
        raise Forbidden("A token cannot change how its person signs in.", hint="Use the Account page.")
    _allowed_check(told, oidc)
    with transaction.atomic():
        held = User.objects.select_for_update().get(pk=user.pk)
        if not held.is_active:
            raise Forbidden("This account is disabled.", hint="Ask an admin of this installation to enable it.")
        known = _identity_of(told)
        if known and known.user_id != user.pk:
            raise Conflict(
                "This person of the provider signs in as another account already.",
                hint="Choose another person there, or remove the link in that other account first.",
            )
        return known or _link(held, told, by=held)


def identity_prove(*, user: User, told: Told, since: float) -> None:
    """Pass where the provider's person is this user, who has signed in there since then (epoch), as far as the provider
    says when. Raises `Forbidden`."""
    known = _identity_of(told)
    if known is None or known.user_id != user.pk:
        raise Forbidden(
            f"The provider's person does not sign in as {user.username}.", hint="Sign in there as the one who does."
        )
    if told.signed_in_at is not None and told.signed_in_at < since - CLOCKS_APART_S:
        raise Forbidden("The provider did not ask you to sign in again.", hint="Sign out there, and try again.")


def identity_unlink(*, actor: User, user: User, oidc: OidcSettings, keep_session: str | None = None) -> None:
    """Remove a user's link with the right that the provider's group gave, and sign them out but in the session of that
    key: an admin anybody's, people their own, as long as a password lets them in, another admin is left and the
    emergency admin stays one.

    Raises `Forbidden`, `NotFound`, `Conflict`.
    """
    if actor != user:
        require_admin(actor)
    elif token_of(actor) is not None:
        raise Forbidden("A token cannot change how its person signs in.", hint="Use the Account page.")
    with transaction.atomic():
        admins_hold()  # before the row, as at a sign-in
        held = User.objects.select_for_update().get(pk=user.pk)
        identity = Identity.objects.filter(user=held, issuer=oidc.issuer).first()
        if identity is None:
            raise NotFound(f"{held.username} is not linked to the identity provider.", hint="Load the page again.")
        if actor == user and not may_use_password(held, oidc):
            raise Conflict(
                "Without the link you could not sign in any more.", hint="Have an admin give you a password first."
            )
        if identity.makes_admin:  # nobody would take it back on leaving the group
            if held.username == oidc.emergency_admin:
                raise Conflict(
                    f"Without the link {held.username}, the admin for emergencies, would be no admin.",
                    hint=f"First make them an admin by hand: dlh people admin {held.username}.",
                )
            user_update(actor=actor, user=held, is_admin=False)
        identity.delete()
        sessions_end(user=held, but_key=keep_session)
        audit_write(actor, "identity_unlink", held.username, issuer=oidc.issuer)


def identity_allow(*, actor: User, user: User) -> None:
    """Let the provider's person with this account's verified e-mail address link it, once, in the next days.

    Raises `Forbidden`, `Invalid`, `Conflict`.
    """
    require_admin(actor)
    with transaction.atomic():
        held = User.objects.select_for_update().get(pk=user.pk)
        if not held.email:
            raise Invalid(f"{held.username} has no e-mail address.", field="email", hint="Give one first.")
        if not held.is_active or User.objects.filter(email__iexact=held.email).count() > 1:
            raise Conflict(
                f"{held.username} is disabled, or somebody else has the same e-mail address.",
                hint="Only an active account with an address of its own can be linked by it.",
            )
        held.link_allowed_until = timezone.now() + LINK_ALLOWED_FOR
        held.save(update_fields=["link_allowed_until"])
        audit_write(actor, "identity_allow", held.username, email=held.email)


def identity_of(user: User, oidc: OidcSettings | None) -> Identity | None:
    """The user's link to the provider of the settings."""
    return Identity.objects.filter(user=user, issuer=oidc.issuer).first() if oidc else None


def may_use_password(user: User, oidc: OidcSettings | None) -> bool:
    """Whether a password lets the user in: where the provider alone counts, that of one admin."""
    if not user.has_usable_password():
        return False
    only = oidc.emergency_admin if oidc else ""
    return not only or (user.username == only and user.is_superuser)


def _identity_of(told: Told) -> Identity | None:
    return Identity.objects.filter(issuer=told.issuer, subject=told.subject).first()


def _allowed_check(told: Told, oidc: OidcSettings) -> None:
    if not (oidc.allowed_domains or oidc.allowed_groups):
        return
    domain = told.email.rpartition("@")[2].lower()
    if (domain and domain in oidc.allowed_domains) or told.groups & oidc.allowed_groups:
        return
    wanted = []
    if oidc.allowed_domains:
        wanted.append("a verified e-mail address of an allowed domain")
    if oidc.allowed_groups:
        wanted.append("membership of an allowed group")
    raise Forbidden(
        f"The provider knows you, but this installation asks for {' or '.join(wanted)}.",
        hint="Have your address verified at the provider, or ask an admin of this installation.",
    )


def _allowed_link(told: Told) -> Identity | None:
    """By an admin's word and a verified address, of which there must be one account alone."""
    if not told.email:
        return None
    rows = User.objects.select_for_update().filter(email__iexact=told.email)
    found = [row for row in rows[:2] if is_same_address(row.email, told.email)]
    allowed_until = found[0].link_allowed_until if len(found) == 1 else None
    if allowed_until is None or allowed_until < timezone.now() or not found[0].is_active:
        return None
    if found[0].identities.filter(issuer=told.issuer).exists():
        return None
    return _link(found[0], told, by=found[0])


def is_same_address(one: str, other: str) -> bool:
    """Whether two addresses differ in case at most. PostgreSQL takes a dotless i for an i: another person's letter."""
    return unicodedata.normalize("NFKC", one).casefold() == unicodedata.normalize("NFKC", other).casefold()


def _link(user: User, told: Told, *, by: User) -> Identity:
    if Identity.objects.filter(user=user, issuer=told.issuer).exists():
        raise Conflict(
            "This account is linked to another person of the provider.",
            hint="Remove that link on the page Account first.",
        )
    try:
        with transaction.atomic():
            identity = Identity.objects.create(user=user, issuer=told.issuer, subject=told.subject)
    except IntegrityError as error:
        raise Conflict("The link was made a moment ago.", hint="Load the page Account again.") from error
    user.link_allowed_until = None
    user.save(update_fields=["link_allowed_until"])
    audit_write(by, "identity_link", user.username, issuer=told.issuer)
    return identity


def _account_make(told: Told, oidc: OidcSettings) -> Identity:
    """An account without a password for somebody unknown. Raises `Forbidden`, `Conflict`."""
    if not oidc.makes_accounts:
        raise Forbidden(
            "The provider knows you, but you have no account here that is linked to it.",
            hint=f"Ask an admin for one. If you have one, {_link_way(oidc)}.",
        )
    user = User(username=told.name, email=told.email)
    user.set_unusable_password()
    try:
        user.full_clean(exclude=["password"], validate_unique=False)
    except ValidationError as error:
        if "email" in error.message_dict:
            raise Forbidden(
                "The provider's e-mail address for you is none that an account here can have.",
                hint="Have it corrected at the provider.",
            ) from error
        raise Forbidden(
            f"The provider's claim {oidc.name_claim} has no name that an account here can have.",
            hint="It needs letters, digits and @ . + - _ alone. Tell an admin: DLH_OIDC_NAME_CLAIM chooses the claim.",
        ) from error
    try:
        with transaction.atomic():
            name_check(user.username)
            user.save()
    except (Conflict, IntegrityError) as error:
        raise Conflict(
            f"There is an account {user.username} already.", hint=f"If it is yours, {_link_way(oidc)}."
        ) from error
    audit_write(user, "user_create", user.username, issuer=told.issuer)
    return _link(user, told, by=user)


def _link_way(oidc: OidcSettings) -> str:
    """How somebody whose account is not linked yet gets that done; where passwords have ended, not by one."""
    allowed = "have an admin allow the link"
    if oidc.emergency_admin:
        return allowed
    return f"sign in with your password and link it on the page Account, or {allowed}"


def _address_take(user: User, told: Told) -> None:
    """The provider's address for the user, where it is verified and nobody else's."""
    if not told.email or told.email == user.email or address_obstacle(user, told.email):
        return
    user.email, user.link_allowed_until = told.email, None
    user.save(update_fields=["email", "link_allowed_until"])
    audit_write(user, "user_update", user.username, email=told.email, issuer=told.issuer)


def address_obstacle(user: User, email: str) -> str:
    """Why an address cannot become the user's; empty: it can."""
    try:
        User._meta.get_field("email").clean(email, user)
    except ValidationError:
        return "it is none that an account here can have"
    taken = User.objects.filter(email__iexact=email).exclude(pk=user.pk).exists()
    return "another account here has it" if taken else ""


def _admin_by_group(user: User, identity: Identity, told: Told, oidc: OidcSettings) -> None:
    """Who is in the group is an admin; who was made one by it alone and has left it is none, but for the last one and
    the one for emergencies."""
    wanted = bool(oidc.admin_group) and oidc.admin_group in told.groups
    if wanted and not user.is_superuser:
        user.is_superuser = user.is_staff = True
        user.save(update_fields=["is_superuser", "is_staff"])
        audit_write(user, "user_update", user.username, is_admin=True, group=oidc.admin_group)
        Identity.objects.filter(pk=identity.pk).update(made_admin=True)
    elif not wanted and identity.made_admin:
        if user.is_superuser and user.username == oidc.emergency_admin:  # nobody's password would count any more
            log.warning("%s left the group of admins and stays one: the admin for emergencies", user.username)
            return
        if user.is_superuser:
            try:
                with transaction.atomic():
                    user_update(actor=user, user=user, is_admin=False)
            except Conflict:
                log.warning("%s left the group of admins and stays one: there is no other", user.username)
                return
        Identity.objects.filter(pk=identity.pk).update(made_admin=False)
