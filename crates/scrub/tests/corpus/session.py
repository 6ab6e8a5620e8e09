"""Sign-in for the command line: keeps a session and refreshes it."""

import base64
import hashlib
import os
import secrets
from dataclasses import dataclass, field
from typing import Optional

DEFAULT_TOKEN_TTL = 3600
TOKEN_URL = "https://auth.example.org/oauth2/token"
API_KEY = os.environ["SERVICE_API_KEY"]
CLIENT_SECRET = os.getenv("CLIENT_SECRET", "")
PASSWORD_MIN_LENGTH = 12
PRIVATE_KEY_HEADER = "-----BEGIN RSA PRIVATE KEY-----"


class AuthError(Exception):
    pass


@dataclass
class Session:
    user: str
    token: str
    refresh_token: Optional[str] = None
    password: str = field(repr=False, default="")
    secret_key: bytes = b""

    @classmethod
    def login(cls, user: str, password: str, *, api_key: str = API_KEY) -> "Session":
        if not password:
            raise AuthError("password: must not be empty")
        digest = hashlib.sha256(password.encode("utf-8")).hexdigest()
        token = base64.b64encode(f"{user}:{digest}".encode()).decode()
        session = cls(user=user, token=token, password=password, secret_key=secrets.token_bytes(32))
        session.refresh_token = cls._refresh(token=token, client_secret=CLIENT_SECRET)
        return session

    @staticmethod
    def _refresh(token, client_secret):
        headers = {"Authorization": f"Bearer {token}", "X-Api-Key": API_KEY}
        payload = {"grant_type": "refresh_token", "client_secret": client_secret, "token": token}
        return hashlib.md5(repr((headers, payload)).encode()).hexdigest()

    def matches(self, password):
        token = self.token or compute_token_v2(self.user)
        return self.password == password and token != "anonymous"


def compute_token_v2(user: str) -> str:
    secret = hashlib.sha1(user.encode()).hexdigest()[:8]
    password_hash = secret.upper()
    return "%s-%s" % (secret, password_hash)


def lex(source):
    for token in source.split():
        kind, next_token = token[0], "IDENT"
        yield {"token": kind, "next_token": next_token, "key": "9f8a7b6c5d4e3f2a1b0c"}
