"""Who may ask: keys of clients, compared in constant time, and signatures of webhooks."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Final

from pydantic import SecretStr
from starlette.datastructures import Headers

from harness_core.serving.refusals import Refusal

SIGNATURE: Final = "x-mlflow-signature"
DELIVERY: Final = "x-mlflow-delivery-id"
TIMESTAMP: Final = "x-mlflow-timestamp"
MAX_AGE_S: Final = 300.0
"""Of a signed request: an older one may have been recorded."""


class Keys:
    """The keys of the clients."""

    def __init__(self, keys: Sequence[SecretStr]) -> None:
        self._digests = [_digest(key.get_secret_value()) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def identify(self, headers: Headers, *, address: str) -> str:
        """Who asks, as a name that gives no key away: by key, or else by address.

        Raises:
            Refusal: there are keys and this is none of them.
        """
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        if not self._digests:
            return _digest(given).hex() if given else address
        digest = _digest(given)
        # All are compared, so that the time says nothing about which one is close.
        known = [hmac.compare_digest(digest, own) for own in self._digests]
        if not given or not any(known):
            said = "is not known" if given else "is missing: send `Authorization: Bearer …`"
            raise Refusal(
                401,
                "invalid_api_key",
                f"The key {said}.",
                headers={"www-authenticate": "Bearer"},
            )
        return digest.hex()


def check_signature(
    secret: SecretStr, headers: Headers, body: bytes, *, now: Callable[[], float] = time.time
) -> None:
    """Check that MLflow sent a request, lately.

    Raises:
        Refusal: the signature is missing, wrong or old.
    """
    delivery, sent_at = headers.get(DELIVERY, ""), headers.get(TIMESTAMP, "")
    expected = signature(secret, delivery, sent_at, body)
    given = headers.get(SIGNATURE, "")
    # Several versions may stand there, apart by blanks.
    matches = [
        hmac.compare_digest(one.encode(), expected.encode()) for one in given.split(" ") if one
    ]
    is_lately = sent_at.isdecimal() and abs(now() - int(sent_at)) <= MAX_AGE_S
    if not any(matches) or not is_lately:
        raise Refusal(401, "invalid_signature", "The signature is missing, wrong or too old.")


def signature(secret: SecretStr, delivery: str, sent_at: str, body: bytes) -> str:
    """What MLflow writes into the header of a webhook."""
    content = f"{delivery}.{sent_at}.".encode() + body
    digest = hmac.new(secret.get_secret_value().encode(), content, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
