"""The webhook guard: what may a terminator answer, and what must it know before?

1. One table says which status follows from which reason (`STATUS`). Nothing else chooses one: no model, no latency of one, no
   text of an exception.
2. Facts come one after the other, and None stands for what nobody looked at yet. In this order the first that holds decides: the
   path, the method, the size, whether there is room for it, whether all of it came in time, the signature, its time, the JSON, the
   identifier, what the store did. `undecided` says that so far nothing stands against it, and that the next fact is wanted.
3. A fact that is known too early is a fault of the terminator: JSON that was read, or a row that was written, before the
   signature matched. It is denied (`out-of-order`).
4. Accepted is what is stored, and nothing else. Whether the store had it before makes no difference to the provider.
5. The same identifier with another body is neither: what is there stays, the other one is kept beside it for a person, and the
   status is 409. A 2xx would promise that the second body counts; a 5xx says that trying again helps.
6. In the lab lane nothing is signed, and what carries any scheme's signature is denied: it belongs to production.
"""

from typing import Annotated, Literal

import msgspec

from drillmaster.guards import Decision, Guard
from drillmaster.rules.webhook_schemes import SCHEMES

__all__ = ["REASONS", "STATUS", "Delivery", "Webhook", "guard"]

REASONS: dict[str, str] = {
    "accepted": "It is signed, readable and stored.",
    "accepted-before": "It was stored before, with the same body. Nothing was written.",
    "undecided": "Nothing stands against it so far; the next fact is wanted.",
    "path-unknown": "It is for another path.",
    "method-not-allowed": "It is no POST.",
    "too-large": "The body is larger than is read here.",
    "too-slow": "The body was not here in time.",
    "signature-missing": "A header that the scheme needs is missing or empty.",
    "signature-malformed": "A header of the scheme is not what the scheme writes.",
    "signature-wrong": "No signature fits any key.",
    "timestamp-too-old": "It was signed longer ago than the scheme allows.",
    "timestamp-too-new": "It was signed further in the future than the scheme allows.",
    "signed-in-lab": "It carries a signature, and the lab takes only what is not signed.",
    "json-unusable": "It is signed, and no JSON object that two readers would read alike.",
    "id-missing": "It is signed, and has no identifier that is one.",
    "other-body": "Another body was stored under this identifier; both are kept, and a person is told.",
    "store-failed": "It could not be stored, or nobody knows that it was. Sending it again is safe.",
    "no-room": "So much is under way or waits for the store that this one was not taken. Sending it again is safe.",
    "out-of-order": "Something was done before it was known that it may be.",
    "facts-unusable": "A fact has a type or a size that none can have.",
}

STATUS: dict[str, int] = {
    "accepted": 202,
    "accepted-before": 202,
    "path-unknown": 404,
    "method-not-allowed": 405,
    "too-large": 413,
    "too-slow": 408,
    "signature-missing": 401,
    "signature-malformed": 401,
    "signature-wrong": 401,
    "timestamp-too-old": 401,
    "timestamp-too-new": 401,
    "signed-in-lab": 401,
    "json-unusable": 400,
    "id-missing": 400,
    "other-body": 409,
    "store-failed": 500,
    "no-room": 500,
    "out-of-order": 500,
    "facts-unusable": 500,
}

Signature = Literal["missing", "malformed", "wrong", "matched", "unsigned"]
Document = Literal["unusable", "no-id", "usable"]
Stored = Literal["new", "known", "other-body", "failed", "no-room"]
_SIGNATURES = frozenset({"missing", "malformed", "wrong", "matched", "unsigned"})
_DOCUMENTS = frozenset({"unusable", "no-id", "usable"})
_STORED = {
    "new": "accepted",
    "known": "accepted-before",
    "other-body": "other-body",
    "failed": "store-failed",
    "no-room": "no-room",
}
_MOST = 2**53 - 1


class Delivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a terminator knows of a request. There is no field for a body, a header or a key. None: nobody looked yet."""

    path_known: bool
    method: str
    body_bytes: int = 0
    """As announced, or as counted so far."""
    room: bool = True
    """Whether there is room for its body beside those of the others that are under way."""
    complete: bool | None = None
    """All of it came; False: the time was over."""
    signature: Signature | None = None
    signed_s: int | None = None
    """The time that was signed, in seconds since 1970; None: the scheme signs none."""
    document: Document | None = None
    stored: Stored | None = None


class Webhook(Guard[None, Delivery], frozen=True, kw_only=True, tag="webhook"):
    """What a webhook's terminator may answer.

    Happens: a provider posts an event, signed, and waits for a 2xx. It sends the event again until one comes.
    Breaks: events that were answered and not stored, bodies that were read unverified, statuses of a model's choice.
    Looks like: one of the reasons; the table gives the status.
    Cannot show: that the key is the provider's alone; what proxies in front did to the bytes.
    """

    scheme: str
    """A row of `rules.webhook_schemes`."""
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1, le=26_214_400)]
    read_within_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)]
    """For the whole body, from its head on."""
    tolerance_s: Annotated[int, msgspec.Meta(ge=1, le=86_400)] | None = None
    """Shorter than the scheme's own; None: the scheme's own."""
    lane: Literal["production", "lab"] = "production"

    def __post_init__(self) -> None:
        row = SCHEMES.get(self.scheme)
        if row is None:
            raise ValueError(f"scheme one of {', '.join(SCHEMES)}: found {self.scheme[:40]!r}")
        if self.tolerance_s is not None and (row.tolerance_s is None or self.tolerance_s > row.tolerance_s):
            most = "none, since it signs no time" if row.tolerance_s is None else f"at most {row.tolerance_s}"
            raise ValueError(f"tolerance_s {most}: found {self.tolerance_s}")

    def step(self, state: None, facts: Delivery, now_ms: int) -> tuple[None, Decision]:
        """Decide by what is known. `now_ms` is the terminator's wall clock."""
        reason = "facts-unusable" if _unusable(facts, now_ms) else self._judged(facts, now_ms)
        return None, Decision(allowed=reason.startswith("accepted"), reason=reason)

    def _judged(self, facts: Delivery, now_ms: int) -> str:
        if not facts.path_known:
            return "path-unknown"
        if facts.method != "POST":
            return "method-not-allowed"
        if facts.body_bytes > self.max_body_bytes:
            return "too-large"
        if not facts.room:
            return "no-room"
        if facts.complete is False:
            return "too-slow"
        if facts.complete is None:
            later = (facts.signature, facts.document, facts.stored)
            return "undecided" if later == (None, None, None) else "out-of-order"
        if facts.signature is None:
            return "undecided" if facts.document is None and facts.stored is None else "out-of-order"
        denied = self._unsigned(facts, now_ms)
        if denied:
            # Denied, and yet read or stored: the order was broken, whatever the signature says.
            return denied if facts.document is None and facts.stored is None else "out-of-order"
        if facts.document is None:
            return "undecided" if facts.stored is None else "out-of-order"
        if facts.document != "usable":
            if facts.stored is not None:
                return "out-of-order"
            return "json-unusable" if facts.document == "unusable" else "id-missing"
        return "undecided" if facts.stored is None else _STORED[facts.stored]

    def _unsigned(self, facts: Delivery, now_ms: int) -> str:
        """Say why the signature does not carry; empty where it does."""
        if self.lane == "lab":
            return "" if facts.signature == "unsigned" else "signed-in-lab"
        if facts.signature == "unsigned":
            return "signature-missing"
        if facts.signature != "matched":
            return f"signature-{facts.signature}"
        scheme_s = SCHEMES[self.scheme].tolerance_s
        if scheme_s is None:
            return ""
        if facts.signed_s is None:
            return "signature-malformed"
        early_ms = facts.signed_s * 1_000 - now_ms
        most_ms = (self.tolerance_s or scheme_s) * 1_000
        if early_ms > most_ms:
            return "timestamp-too-new"
        return "timestamp-too-old" if -early_ms > most_ms else ""


def _unusable(facts: Delivery, now_ms: int) -> bool:
    """Whether a fact is none. Types are looked at too: a struct that was made in code is checked by nobody else."""
    complete = False if facts.complete is None else facts.complete
    for one, kind in ((facts.path_known, bool), (facts.method, str), (facts.room, bool), (complete, bool)):
        if type(one) is not kind:
            return True
    for number in (now_ms, facts.body_bytes, 0 if facts.signed_s is None else facts.signed_s):
        if type(number) is not int or not 0 <= number <= _MOST:
            return True
    for word, known in ((facts.signature, _SIGNATURES), (facts.document, _DOCUMENTS), (facts.stored, _STORED)):
        if word is not None and not (isinstance(word, str) and word in known):
            return True
    return False


guard = Webhook
