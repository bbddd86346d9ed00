"""Keys that check webhooks: read once, at the start, and shown by nobody."""

import binascii
import re
from collections.abc import Sequence
from typing import Any

from drillmaster.errors import Problem

__all__ = ["LEAST_KEY_BYTES", "Key", "base64_exact", "read_key"]

LEAST_KEY_BYTES = 24
_MOST_KEY_BYTES = 512
_MOST_STANDARD_BYTES = 64
_PUBLIC_BYTES = 32
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_VISIBLE = re.compile(r"[\x21-\x7e]+(?: [\x21-\x7e]+)*")
_P = 2**255 - 19
_SMALL = frozenset(
    {
        0,
        1,
        _P - 1,
        *(
            int.from_bytes(bytes.fromhex(y), "little")
            for y in (
                "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
                "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            )
        ),
    }
)
"""The points of small order, by their y: under such a key a signature of nothing fits."""
_REMEDY = "put the provider's own signing secret there; openssl rand -base64 32 makes one where you choose it"


class Key:
    """One key. `secret` is what a MAC is made with, or the public half that a signature is checked by. Neither is ever shown."""

    __slots__ = ("_hmac", "_verifier", "public", "secret")

    def __init__(self, secret: bytes, *, public: bool = False, verifier: Any = None) -> None:
        import hmac  # with OpenSSL, 8 ms: whoever has no key does not pay for it

        self.secret = secret
        self.public = public
        self._verifier = verifier
        self._hmac = hmac

    def __repr__(self) -> str:
        return f"Key({'public' if self.public else 'hmac'})"

    def __reduce__(self) -> Any:
        raise TypeError("a key is not written down")

    def mac(self, text: bytes) -> bytes:
        """Make the MAC of a text: HMAC with SHA-256."""
        return self._hmac.digest(self.secret, text, "sha256")

    def fits(self, text: bytes, signatures: Sequence[bytes]) -> bool:
        """Whether one of some signatures is this key's for a text. All are looked at, each in constant time."""
        matched = False
        if self.public:
            for one in signatures:
                matched |= self._verifies(one, text)
        elif signatures:
            mac = self.mac(text)
            for one in signatures:
                matched |= self._hmac.compare_digest(mac, one)
        return matched

    def _verifies(self, signature: bytes, text: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._verifier.verify(signature, text)
        except InvalidSignature:
            return False
        return True


def base64_exact(text: bytes, size: int) -> bytes | None:
    """Decode standard, padded base64 of exactly `size` bytes; None for anything else, bits behind the end included."""
    if _BASE64.fullmatch(text) is None:
        return None
    raw = binascii.a2b_base64(text)
    if len(raw) != size or binascii.b2a_base64(raw, newline=False) != text:
        return None
    return raw


def read_key(text: str, *, standard: bool, place: str) -> Key:
    """Read a key as a provider hands it out. Raises Problem, which names `place` and never the key.

    With `standard`, `whsec_` and base64, or `whpk_` for a public key. Else the text itself is the key, whatever it begins with.
    """
    if not isinstance(text, str) or _VISIBLE.fullmatch(text) is None:
        raise _problem(place, "nothing" if not text else "blanks or characters that no key has", "one key on one line")
    if not standard:
        return Key(_long_enough(text.encode("ascii"), place, _MOST_KEY_BYTES))
    prefix, _, rest = text.partition("_")
    if prefix == "whsk":
        raise _problem(place, "a private key, with which anybody could sign", "the public one, whpk_...")
    if prefix not in ("whsec", "whpk") or not rest:
        raise _problem(
            place, "text that begins with neither whsec_ nor whpk_", "a key of the Standard Webhooks specification"
        )
    padded = rest.encode("ascii") + b"=" * (-len(rest) % 4)
    if _BASE64.fullmatch(padded) is None:
        raise _problem(place, "text that is no base64", "a key of the Standard Webhooks specification")
    raw = binascii.a2b_base64(padded)
    if prefix == "whsec":
        return Key(_long_enough(raw, place, _MOST_STANDARD_BYTES))
    if len(raw) != _PUBLIC_BYTES:
        raise _problem(place, f"a public key of {len(raw)} bytes", f"one of {_PUBLIC_BYTES}")
    if (int.from_bytes(raw, "little") & (1 << 255) - 1) % _P in _SMALL:
        raise _problem(place, "a public key of small order, for which anybody could sign", "the provider's own")
    return Key(raw, public=True, verifier=_verifier(raw, place))


def _long_enough(raw: bytes, place: str, most: int) -> bytes:
    if not LEAST_KEY_BYTES <= len(raw) <= most:
        raise _problem(place, f"a key of {len(raw)} bytes", f"{LEAST_KEY_BYTES} to {most} bytes")
    if not raw.strip(b"\0") or not raw.strip(b"0"):
        raise _problem(place, "a key of zeros, which everybody has", "the provider's own")
    return raw


def _verifier(raw: bytes, place: str) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise Problem(
            place,
            found="a public key, and nothing here that can use one",
            wanted="the package cryptography",
            remedy="pip install 'drillmaster[webhook]'",
        ) from None
    return Ed25519PublicKey.from_public_bytes(raw)


def _problem(place: str, found: str, wanted: str) -> Problem:
    return Problem(place, found=found, wanted=wanted, remedy=_REMEDY)
