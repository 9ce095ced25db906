"""A small OpenID provider of its own process, spoken to over HTTP: honest unless it is told to lie in its next answer.

`python -m tests.oidc_provider PORT` serves; `Provider` starts one and tells it whom it signs in, and how it lies.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import secrets
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey

from harness.env import REPOSITORY

CLIENT_ID, CLIENT_SECRET = "harness", "s3cret of:the client"
ADA = {"sub": "ada-1", "preferred_username": "ada", "email": "ada@example.org", "email_verified": True}


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class _Escaped(json.JSONEncoder):
    """Halves of a letter too, which UTF-8 cannot say."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{**how, "ensure_ascii": True})


class _State:
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
        self.told: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.key_requests = 0

    def token(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            **ADA, **self.told.get("claims", {}),
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        lie = self.told.get("signed", "")
        if lie == "none":
            return f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(claims)}."
        if lie == "HS256":
            signed = f"{_part({'alg': 'HS256', 'kid': 'first'})}.{_part(claims)}"
            mac = hmac.new(self.key.as_pem(private=False), signed.encode(), hashlib.sha256).digest()
            return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        if lie == "other key":
            key = RSAKey.generate_key(2048, {"kid": self.key.kid})
            return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, key)
        if lie in ("new key", "new key of the old name"):
            name = secrets.token_hex(4) if lie == "new key" else self.key.kid
            self.key = RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"})
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key, encoder_cls=_Escaped)


class _Handler(BaseHTTPRequestHandler):
    state: _State

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        issuer = self.state.issuer
        body = self.state.told.get("bodies", {}).get(url.path)
        if body is not None:
            is_packed = bool(self.state.told.get("packed"))
            sent = gzip.compress(body.encode()) if is_packed else body.encode()
            self._send(sent, 200, {"Content-Encoding": "gzip"} if is_packed else {})
        elif url.path == "/.well-known/openid-configuration":
            self._say({
                "issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
                "jwks_uri": f"{issuer}/keys", **self.state.told.get("discovery", {}),
            })  # fmt: skip
        elif url.path == "/keys":
            self.state.key_requests += 1
            self._say({"keys": [*self.state.told.get("keys", []), self.state.key.as_dict(private=False)]})
        elif url.path == "/requests":
            self._say({"keys": self.state.key_requests})
        elif url.path == "/authorize":
            code = secrets.token_urlsafe(16)
            self.state.codes[code] = asked
            answer = self.state.told.get("answer") or {"code": code, "iss": issuer}
            self.send_response(302)
            self.send_header("Location", f"{asked['redirect_uri']}?{urlencode({'state': asked['state'], **answer})}")
            self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/told":
            self.state.told = json.loads(body)
            return self._say({})
        sent = {name: values[0] for name, values in parse_qs(body).items()}
        asked = self.state.codes.pop(sent.get("code", ""), None)  # good once
        expected = base64.b64encode(b"harness:s3cret+of%3Athe+client").decode()
        if self.headers["Authorization"] != f"Basic {expected}":
            return self._say({"error": "invalid_client"}, 401)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or (asked["code_challenge_method"], asked["code_challenge"]) != ("S256", challenge)
            or asked["redirect_uri"] != sent.get("redirect_uri")
        ):
            return self._say({"error": "invalid_grant"}, 400)
        return self._say({"access_token": "x", "token_type": "Bearer", "id_token": self.state.token(asked)})

    def _say(self, document: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(document).encode(), status, {})

    def _send(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Silent."""


class Provider:
    """A provider that runs until it is closed."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.issuer = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen([sys.executable, "-m", "tests.oidc_provider", str(port)], cwd=REPOSITORY)
        while True:
            try:
                self.tell()
                return
            except httpx.TransportError:
                if self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def tell(self, **told: Any) -> None:
        """What the next answers say: `claims`, `signed`, `answer`, `discovery`, `keys` beside its own, `bodies` by path
        (`packed`: by gzip, though it was not asked for); without any the truth."""
        httpx.post(f"{self.issuer}/told", content=json.dumps(told)).raise_for_status()

    def key_requests(self) -> int:
        return int(httpx.get(f"{self.issuer}/requests").json()["keys"])

    def answer_to(self, address: str) -> str:
        """Where the provider sends the browser that comes with this address."""
        return httpx.get(address).headers["Location"]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


if __name__ == "__main__":
    _Handler.state = _State(f"http://127.0.0.1:{sys.argv[1]}")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
