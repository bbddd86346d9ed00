"""How providers sign webhooks: one row a scheme, read by one grammar and checked over the bytes that came.

1. A signature is over the body's bytes as they came off the wire. They are decoded by nobody before it was checked: not as text,
   not as JSON, not by a content coding.
2. A header is read exactly or not at all. One line of its name; ASCII digits without a leading zero for a time; lower-case hex
   or padded base64 of exactly the length of a digest; one `t`. What is anything else is malformed. Parts and versions that the
   scheme does not name are passed over, as the schemes' own documents say.
3. Each signature of a header is held against each key, in constant time and to the end: that is how keys are rotated. At least 24
   bytes make a key, which is the least that the Standard Webhooks specification allows.
4. The time that is signed is the text that was sent. How old it may be is the scheme's, with the place it comes from; a scheme
   without a signed time has none, and says so.
5. An identifier that the signature does not cover is anybody's: whoever caught a signed body could send it again under another.
   Such an event is known by the digest of its body. The same holds for nothing else: a signed identifier stays what it is.
6. Nothing here raises for what came over the wire. Only a key that is none does, where it is read.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from drillmaster.rules._webhook_keys import LEAST_KEY_BYTES, Key, base64_exact, read_key

__all__ = [
    "LEAST_KEY_BYTES",
    "MOST_KEYS",
    "SCHEMES",
    "Checked",
    "Key",
    "Scheme",
    "check",
    "event_id",
    "header_names",
    "read_key",
    "same_digest",
    "sign",
]

Signature = Literal["missing", "malformed", "wrong", "matched"]
Form = Literal["pairs", "hex", "base64", "list"]
Piece = Literal["id", "time", "body"] | bytes

MOST_KEYS = 8
_MOST_SIGNATURES = 16
_MOST_HEADER_BYTES = 4_096
_MOST_ID_CHARS = 255


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `signed` names what is signed, in its order: `id`, `time`, `body`, or bytes that stand for themselves."""

    source: str
    """Where the provider says so."""
    form: Form
    signature: bytes
    """The header's name, in lower case."""
    version: bytes = b""
    """What stands before the signature."""
    time: bytes | None = None
    """The header that holds the time; None: it is in the signature's header, or there is none."""
    id_header: bytes | None = None
    """The header that holds the identifier, where the signature covers it."""
    id_at: tuple[str, ...] | None = None
    """Where the body holds the identifier; None with no `id_header`: the digest of the body stands for it (rule 5)."""
    signed: tuple[Piece, ...] = ("body",)
    tolerance_s: int | None = None
    """How far a signed time may be from now, either way; None: the scheme signs no time."""
    tolerance_source: str
    restated: tuple[str, ...] = ()
    """Top-level fields of the body that differ from one delivery to the next of one event."""
    asymmetric: bool = False
    """Whether keys may be public ones, and signatures `v1a`."""


_STANDARD = "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"
_FIVE = "5 minutes, as the reference libraries have it; the specification asks for some tolerance and names none"
_NO_TIME = "no time is signed: a body stays valid as long as its key, and only its digest tells a replay"

SCHEMES: dict[str, Scheme] = {
    "generic": Scheme(
        source="t=<unix>,v1=<hex> over <t>.<body>, as many providers have it",
        form="pairs",
        signature=b"x-provider-signature",
        version=b"v1",
        id_at=("id",),
        signed=("time", b".", "body"),
        tolerance_s=300,
        tolerance_source="5 minutes, a proposal: take the provider's own",
    ),
    "github": Scheme(
        source="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
        form="hex",
        signature=b"x-hub-signature-256",
        version=b"sha256=",
        tolerance_source=_NO_TIME,
    ),
    "pagerduty": Scheme(
        source="https://developer.pagerduty.com/docs/verifying-webhook-signatures",
        form="pairs",
        signature=b"x-pagerduty-signature",
        version=b"v1",
        id_at=("event", "id"),
        tolerance_source=_NO_TIME,
    ),
    "shopify": Scheme(
        source="https://shopify.dev/docs/apps/build/webhooks/verify-deliveries",
        form="base64",
        signature=b"x-shopify-hmac-sha256",
        tolerance_source=_NO_TIME,
    ),
    "slack": Scheme(
        source="https://docs.slack.dev/authentication/verifying-requests-from-slack",
        form="hex",
        signature=b"x-slack-signature",
        version=b"v0=",
        time=b"x-slack-request-timestamp",
        id_at=("event_id",),
        signed=(b"v0:", "time", b":", "body"),
        tolerance_s=300,
        tolerance_source="5 minutes: https://docs.slack.dev/authentication/verifying-requests-from-slack",
    ),
    "standard": Scheme(
        source=_STANDARD,
        form="list",
        signature=b"webhook-signature",
        version=b"v1",
        time=b"webhook-timestamp",
        id_header=b"webhook-id",
        signed=("id", b".", "time", b".", "body"),
        tolerance_s=300,
        tolerance_source=_FIVE,
        asymmetric=True,
    ),
    "stripe": Scheme(
        source="https://docs.stripe.com/webhooks#verify-manually",
        form="pairs",
        signature=b"stripe-signature",
        version=b"v1",
        id_at=("id",),
        signed=("time", b".", "body"),
        tolerance_s=300,
        tolerance_source="5 minutes, the default of Stripe's libraries: https://docs.stripe.com/webhooks#replay-attacks",
        restated=("pending_webhooks",),
    ),
    "svix": Scheme(
        source="https://docs.svix.com/receiving/verifying-payloads/how-manual",
        form="list",
        signature=b"svix-signature",
        version=b"v1",
        time=b"svix-timestamp",
        id_header=b"svix-id",
        signed=("id", b".", "time", b".", "body"),
        tolerance_s=300,
        tolerance_source=_FIVE,
        asymmetric=True,
    ),
}

_TIME = re.compile(rb"0|[1-9][0-9]{0,11}")
_HEX = re.compile(rb"[0-9a-f]{64}")
_PART = re.compile(rb"([A-Za-z0-9_]{1,32})=([\x21-\x2b\x2d-\x7e]{1,1024})")
_ENTRY = re.compile(rb"([a-z0-9]{1,16}),([\x21-\x7e]{1,1024})")
_ID = re.compile(rb"[\x21-\x2d\x2f-\x7e]{1,255}")  # visible ASCII without the dot, which parts what is signed
_DIGEST_BYTES = 32
_ED25519_BYTES = 64


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a signature's headers say. Only `matched` makes the rest of it true."""

    signature: Signature
    time_s: int | None = None
    """Seconds since 1970 as they were signed; None: there is none."""
    message_id: str | None = None


class _Read(msgspec.Struct):
    time: bytes
    message_id: bytes
    macs: Sequence[bytes]
    public: Sequence[bytes]
    """Signatures that a public key checks."""


_Signatures = tuple[bytes, Sequence[bytes], Sequence[bytes]]
"""The time where it is in the signature's header, MACs, and signatures that a public key checks."""

_MISSING = Checked(signature="missing")
_MALFORMED = Checked(signature="malformed")


def check(scheme: Scheme, headers: Iterable[tuple[bytes, bytes]], body: bytes, keys: Sequence[Key]) -> Checked:
    """Hold a body against what its headers say. Names of `headers` are in lower case, each line of them by itself.

    A body that is no bytes was decoded by somebody: it is `malformed`, since nobody knows what came.
    """
    if type(body) not in (bytes, bytearray):
        return _MALFORMED
    read = _read(scheme, headers)
    if isinstance(read, Checked):
        return read
    if not 0 < len(keys) <= MOST_KEYS:
        return Checked(signature="wrong")
    text = _signed(scheme, read.message_id, read.time, body)
    matched = False
    for key in keys:  # to the end, whatever matches: how long it takes says nothing
        matched |= key.fits(text, read.public if key.public else read.macs)
    return Checked(
        signature="matched" if matched else "wrong",
        time_s=int(read.time) if read.time else None,
        message_id=read.message_id.decode("ascii") or None,
    )


def event_id(scheme: Scheme, checked: Checked, body: bytes, document: object) -> str | None:
    """Give what an event is known by (rule 5); None: it has no identifier that is one."""
    if scheme.id_header is not None:
        return checked.message_id
    if scheme.id_at is None:
        return f"sha256:{_sha256(body)}"
    found: Any = document
    for name in scheme.id_at:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= _MOST_ID_CHARS:
        return None
    return found if found.isprintable() and not found.isspace() else None


def same_digest(scheme: Scheme, body: bytes, document: object) -> str:
    """Name what a body says, so that two deliveries of one event are told from two events under one identifier.

    That is the digest of its bytes; where a provider writes some fields anew each time, of all but those.
    """
    if not (scheme.restated and isinstance(document, dict) and any(name in document for name in scheme.restated)):
        return _sha256(body)
    from drillmaster.strict import canonical

    kept: dict[str, Any] = {name: value for name, value in document.items() if name not in scheme.restated}
    return _sha256(canonical(kept))


def _sha256(data: bytes) -> str:
    import hashlib  # likewise only where there is a body

    return hashlib.sha256(data).hexdigest()


def header_names() -> frozenset[bytes]:
    """List the headers that hold a signature, of all schemes."""
    return frozenset(scheme.signature for scheme in SCHEMES.values())


def sign(
    scheme: Scheme, body: bytes, keys: Sequence[Key], *, time_s: int = 0, message_id: str = ""
) -> list[tuple[bytes, bytes]]:
    """Give the headers that a provider would send with a body, signed by each key. For drills, benches and tests."""
    time = b"%d" % time_s if "time" in scheme.signed else b""
    name = message_id.encode("ascii") if "id" in scheme.signed else b""
    text = _signed(scheme, name, time, body)
    macs = [key.mac(text) for key in keys]
    headers = [(scheme.signature, _written(scheme, time, macs))]
    if scheme.time is not None:
        headers.append((scheme.time, time))
    if scheme.id_header is not None:
        headers.append((scheme.id_header, name))
    return headers


def _signed(scheme: Scheme, message_id: bytes, time: bytes, body: bytes) -> bytes:
    return b"".join(
        [
            body if piece == "body" else time if piece == "time" else message_id if piece == "id" else piece
            for piece in scheme.signed
        ]
    )


def _written(scheme: Scheme, time: bytes, macs: Sequence[bytes]) -> bytes:
    from base64 import b64encode

    match scheme.form:
        case "pairs":
            stamped = [b"t=" + time] if time else []
            return b",".join([*stamped, *(scheme.version + b"=" + mac.hex().encode() for mac in macs)])
        case "hex":
            return scheme.version + macs[0].hex().encode()
        case "base64":
            return b64encode(macs[0])
        case "list":
            return b" ".join(scheme.version + b"," + b64encode(mac) for mac in macs)


def _read(scheme: Scheme, headers: Iterable[Any]) -> _Read | Checked:
    """Read the headers of a scheme; a `Checked` where that cannot be done."""
    wanted = _WANTED[scheme.signature]
    found: dict[bytes, bytes] = {}
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            return _MALFORMED
        name, value = pair
        if type(name) is not bytes or type(value) is not bytes:
            return _MALFORMED
        if name in wanted:
            if name in found or len(value) > _MOST_HEADER_BYTES:
                return _MALFORMED
            found[name] = value
    if len(found) < len(wanted) or not all(found.values()):
        return _MISSING
    read = _signatures(scheme, found[scheme.signature])
    if read is None:
        return _MALFORMED
    time, macs, public = read
    if scheme.time is not None:
        time = found[scheme.time]
    message_id = found[scheme.id_header] if scheme.id_header is not None else b""
    if ("time" in scheme.signed) != bool(time) or (time and _TIME.fullmatch(time) is None):
        return _MALFORMED
    if message_id and _ID.fullmatch(message_id) is None:
        return _MALFORMED
    return _Read(time, message_id, macs, public)


_WANTED = {
    row.signature: frozenset(name for name in (row.signature, row.time, row.id_header) if name is not None)
    for row in SCHEMES.values()
}


def _signatures(scheme: Scheme, value: bytes) -> _Signatures | None:
    match scheme.form:
        case "pairs":
            return _pairs(scheme, value)
        case "hex":
            mac = value[len(scheme.version) :]
            exact = value.startswith(scheme.version) and _HEX.fullmatch(mac)
            return (b"", (bytes.fromhex(mac.decode("ascii")),), ()) if exact else None
        case "base64":
            one = base64_exact(value, _DIGEST_BYTES)
            return None if one is None else (b"", (one,), ())
        case "list":
            return _list(scheme, value)


def _pairs(scheme: Scheme, value: bytes) -> _Signatures | None:
    timed = "time" in scheme.signed
    times: list[bytes] = []
    macs: list[bytes] = []
    parts = value.split(b",")
    if len(parts) > _MOST_SIGNATURES:
        return None
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None:
            return None
        name, said = match.groups()
        if name == b"t" and timed:
            times.append(said)
        elif name == scheme.version:
            if _HEX.fullmatch(said) is None:
                return None
            macs.append(bytes.fromhex(said.decode("ascii")))
    if not macs or len(times) != timed:
        return None
    return times[0] if times else b"", macs, ()


def _list(scheme: Scheme, value: bytes) -> _Signatures | None:
    macs: list[bytes] = []
    public: list[bytes] = []
    entries = value.split(b" ")
    if len(entries) > _MOST_SIGNATURES:
        return None
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None:
            return None
        version, said = match.groups()
        if version == scheme.version:
            one, into = base64_exact(said, _DIGEST_BYTES), macs
        elif version == scheme.version + b"a":
            one, into = base64_exact(said, _ED25519_BYTES), public
        else:
            continue
        if one is None:
            return None
        into.append(one)
    return (b"", macs, public) if macs or public else None
