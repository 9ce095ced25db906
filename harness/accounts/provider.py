"""What the identity provider is asked and answers: the way there (authorization code, PKCE, state, nonce), the exchange
of the code, and the ID token, of which nothing is believed before its signature and its claims hold."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

from harness.env_oidc import OidcSettings, is_safe_address
from harness.errors import Forbidden, HarnessError, Unavailable

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""For one answer of the provider, however slowly it drips."""
ANSWER_BYTES_MAX = 2**20
CLOCKS_APART_S = 60
"""By so much the provider's clock may differ."""
KEPT_S = 600.0
"""Discovery and keys are asked for anew after so long."""
KEYS_ANEW_S = 10.0
"""A signature by an unknown key has them asked for at once, but no more often than this."""
SIGNED_BY = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures by a private key that the provider alone has: no `none`, none by a shared secret."""
_AGAIN = "Start again from the sign-in page."
_ASK_ADMIN = "Tell an admin of this installation."


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a valid ID token says of a person."""

    issuer: str
    subject: str
    name: str
    """By the claim of the settings; empty: it has none."""
    email: str
    """Only one that the provider has verified; else empty."""
    groups: frozenset[str]
    signed_in_at: float | None = None
    """When they showed the provider who they are (epoch); None: it does not say."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """The secrets of one way to the provider and back: they stay in the browser's session, and are good once."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def make(cls) -> Way:
        """Fresh ones of 256 bits."""
        return cls(state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(48))


_kept: dict[str, tuple[float, dict[str, Any]]] = {}
"""Address -> (when it came, monotonic; the document)."""


def way_address(oidc: OidcSettings, way: Way, *, back: str, anew: bool = False) -> str:
    """Where the browser is sent; `back`: the callback's address; `anew`: who is signed in there shall sign in again.

    Raises `Unavailable`, `Forbidden`.
    """
    challenge = base64.urlsafe_b64encode(hashlib.sha256(way.verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": oidc.client_id,
        "redirect_uri": back,
        "scope": oidc.scopes,
        "state": way.state,
        "nonce": way.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **({"max_age": 0} if anew else {}),
    }
    endpoint = _endpoint(oidc, "authorization_endpoint")
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"


def answer_check(oidc: OidcSettings, answer: Mapping[str, str]) -> str:
    """The code of an answer whose state was right. Raises `Forbidden` for refusals and answers of other providers."""
    issuer = answer.get("iss", "")
    if issuer and issuer != oidc.issuer:
        raise _refused("The answer came from another identity provider.", _AGAIN, "iss")
    if not issuer and _discovery(oidc).get("authorization_response_iss_parameter_supported") is True:
        raise _refused("The answer does not say which provider it is from.", _AGAIN, "iss")
    error = answer.get("error", "")
    if error == "access_denied":
        raise _refused("The sign-in was cancelled or refused at the provider.", "Try again and agree there.", error)
    if error in ("temporarily_unavailable", "server_error"):
        raise Unavailable("The identity provider cannot sign anybody in now.", hint="Try again in a few minutes.")
    if error:
        raise _refused("The provider refused the request of this portal.", f"{_ASK_ADMIN} The log has its word.", error)
    if not answer.get("code"):
        raise _refused("The provider's answer has no code.", _AGAIN, "no code")
    return answer["code"]


def code_redeem(oidc: OidcSettings, way: Way, *, code: str, back: str) -> Told:
    """Exchange the code for the ID token, and read it. Raises `Unavailable`, `Forbidden`."""
    sent = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": way.verifier}
    headers = {"Accept": "application/json"}
    methods = _discovery(oidc).get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    if oidc.client_secret and "client_secret_basic" in methods:
        pair = f"{quote_plus(oidc.client_id)}:{quote_plus(oidc.client_secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        sent["client_id"] = oidc.client_id
        if oidc.client_secret:
            sent["client_secret"] = oidc.client_secret
    status, document = _asked("POST", _endpoint(oidc, "token_endpoint"), data=sent, headers=headers)
    if status != 200:
        word = str(document.get("error", ""))
        hint = "Compare client id and secret with the provider's." if word == "invalid_client" else "Start again."
        raise _refused("The provider did not accept the sign-in.", f"{hint} {_ASK_ADMIN}", f"{status} {word}")
    token = document.get("id_token")
    if not isinstance(token, str):
        raise _refused(
            "The provider sent no ID token.", f"Its client must use OpenID Connect. {_ASK_ADMIN}", "no token"
        )
    return told_by(oidc, token, nonce=way.nonce)


def told_by(oidc: OidcSettings, token: str, *, nonce: str) -> Told:
    """What an ID token says, once signature, issuer, audience, times and nonce hold.

    Raises `Forbidden`, `Unavailable`.
    """
    claims = _claims_checked(oidc, _claims(oidc, token), nonce)
    email = claims.get("email")
    verified = isinstance(email, str) and email.isprintable() and claims.get("email_verified") in (True, "true")
    name = claims.get(oidc.name_claim)
    if oidc.name_claim == "email" and not verified:
        name = None
    groups, signed_in_at = claims.get(oidc.groups_claim), claims.get("auth_time")
    named = groups if isinstance(groups, list) else []
    return Told(
        issuer=oidc.issuer,
        subject=claims["sub"],
        name=name.strip() if isinstance(name, str) else "",
        email=str(email).strip() if verified else "",
        groups=frozenset(group for group in named if isinstance(group, str)),
        signed_in_at=signed_in_at if isinstance(signed_in_at, int | float) else None,
    )


def _claims(oidc: OidcSettings, token: str) -> dict[str, Any]:
    """Of a token with a good signature; keys that have changed are asked for once more."""
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError

    try:
        try:
            return jwt.decode(token, _keys(oidc, KEPT_S), algorithms=list(SIGNED_BY)).claims
        except (
            InvalidKeyIdError,
            BadSignatureError,
        ):  # the latter of a key set whose keys have no names, or the old ones
            return jwt.decode(token, _keys(oidc, KEYS_ANEW_S), algorithms=list(SIGNED_BY)).claims
    except (JoseError, ValueError, TypeError) as error:
        raise _refused(
            "The provider's ID token has no signature that holds.",
            f"Try again in a minute; if it stays so: {_ASK_ADMIN[0].lower()}{_ASK_ADMIN[1:]}",
            type(error).__name__,
        ) from error


def _claims_checked(oidc: OidcSettings, claims: dict[str, Any], nonce: str) -> dict[str, Any]:
    from joserfc.errors import ClaimError, ExpiredTokenError
    from joserfc.jwt import JWTClaimsRegistry

    rules = JWTClaimsRegistry(
        leeway=CLOCKS_APART_S,
        iss={"essential": True, "value": oidc.issuer},
        sub={"essential": True},
        aud={"essential": True, "value": oidc.client_id},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    clocks = f"Compare the clocks of portal and provider: they may differ by {CLOCKS_APART_S} s. {_ASK_ADMIN}"
    try:
        rules.validate(claims)
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else oidc.client_id) != oidc.client_id:
            raise _refused(*_CLAIMS["aud"], "azp")
    except ExpiredTokenError as error:
        raise _refused("The provider's ID token has expired already.", clocks, "exp") from error
    except ClaimError as error:
        if error.claim in ("iat", "nbf"):
            raise _refused("The provider's ID token is from the future.", clocks, error.claim) from error
        raise _refused(*_CLAIMS.get(error.claim or "", _CLAIMS[""]), error.claim or "") from error
    if len(claims["sub"]) > 255 or not claims["sub"].isprintable():  # databases take neither NUL nor half a letter
        raise _refused(*_CLAIMS[""], "sub")
    return claims


_CLAIMS = {
    "aud": (
        "The provider's ID token is for another application.",
        f"DLH_OIDC_CLIENT_ID must be the client id of this portal. {_ASK_ADMIN}",
    ),
    "iss": (
        "The provider's ID token names another issuer.",
        f"DLH_OIDC_ISSUER must be the issuer of the discovery document to the letter. {_ASK_ADMIN}",
    ),
    "nonce": ("The provider's ID token belongs to another sign-in.", _AGAIN),
    "": ("The provider's ID token lacks something that OpenID Connect asks for.", _ASK_ADMIN),
}


def _keys(oidc: OidcSettings, kept_s: float) -> Any:
    """Public keys for signatures, as far as they can be read. Raises `Unavailable`."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, Key, KeySet, RSAKey

    document = _document(_endpoint(oidc, "jwks_uri"), kept_s)
    keys = document.get("keys")
    usable: list[Key] = []
    for key in keys if isinstance(keys, list) else []:
        if not isinstance(key, dict) or key.get("use", "sig") != "sig":
            continue
        with suppress(
            JoseError, ValueError, TypeError, KeyError
        ):  # one that nobody here can use leaves the others good
            if key.get("kty") == "RSA":
                usable.append(RSAKey.import_key(key))
            elif key.get("kty") == "EC":
                usable.append(ECKey.import_key(key))
    return KeySet(usable)


def _discovery(oidc: OidcSettings) -> dict[str, Any]:
    document = _document(f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration", KEPT_S)
    if document.get("issuer") != oidc.issuer:
        raise _refused(*_CLAIMS["iss"], "issuer of the discovery document")
    return document


def _endpoint(oidc: OidcSettings, name: str) -> str:
    url = _discovery(oidc).get(name)
    if not isinstance(url, str) or not is_safe_address(url):
        raise _unreadable(f"{name} of the discovery document is no https address")
    return url


def _document(url: str, kept_s: float) -> dict[str, Any]:
    """A document of the provider, not older than so long."""
    known = _kept.get(url)
    if known and time.monotonic() - known[0] < kept_s:
        return known[1]
    status, document = _asked("GET", url, headers={"Accept": "application/json"})
    if status != 200 or not document:
        raise _unreadable(f"{url} answers {status}, or no JSON object")
    _kept[url] = (time.monotonic(), document)
    return document


def _asked(method: str, url: str, **sent: Any) -> tuple[int, dict[str, Any]]:
    """(status, JSON object) of an answer; redirects are not followed. Raises `Unavailable`."""
    import httpx

    end_s = time.monotonic() + TIMEOUT_S
    body = bytearray()
    try:
        # The machine's own authorities (or SSL_CERT_FILE), so that those of an institution count.
        with (
            httpx.Client(
                timeout=TIMEOUT_S, verify=ssl.create_default_context(), headers={"Accept-Encoding": "identity"}
            ) as client,
            client.stream(method, url, **sent) as answer,
        ):
            for part in answer.iter_raw():  # as it comes: what is packed may become a thousand times larger
                body += part
                if len(body) > ANSWER_BYTES_MAX or time.monotonic() > end_s:
                    raise _unreadable(f"{url}: the answer is too large or too slow")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        log.warning("identity provider: %s: %s", url, type(error).__name__)
        raise Unavailable(
            "The identity provider cannot be reached.",
            hint="Try again in a few minutes; if it stays so, an admin must look at the address and its certificate.",
        ) from error
    try:
        document = json.loads(bytes(body))
    except (ValueError, RecursionError):
        document = {}
    return answer.status_code, document if isinstance(document, dict) else {}


def _unreadable(why: str) -> HarnessError:
    log.warning("identity provider: %s", why)
    return Unavailable("The identity provider's answer cannot be read.", hint=f"{_ASK_ADMIN} The log has the reason.")


def _refused(message: str, hint: str, why: str) -> Forbidden:
    """The refusal; the log has the reason in one word, never a token or a code."""
    log.warning("identity provider: sign-in refused: %s (%s)", message, why[:80].encode("unicode_escape").decode())
    return Forbidden(message, hint=hint)
