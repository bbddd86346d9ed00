"""A signed webhook for whatever is no Slack: Standard Webhooks, `type`, `timestamp` and `data`.

The signature is over `id.timestamp.body` with a key of the form `whsec_` and base64; several keys, while one is being changed for
another, sign one after the other in one header. The types are `drill.passed`, `drill.failed`, `drill.refused`, `drill.aborted`.
"""

import msgspec

from drillmaster.errors import Problem
from drillmaster.notices import MOST_ROWS, Notice
from drillmaster.reports import encodable
from drillmaster.rules.webhook_schemes import SCHEMES, Key, read_key, sign

__all__ = ["MOST_BYTES", "body", "headers", "keys_of"]

MOST_BYTES = 20_000
_TYPES = {"pass": "drill.passed", "fail": "drill.failed", "refused": "drill.refused", "aborted": "drill.aborted"}


def body(notice: Notice) -> bytes:
    """Write the body, at most `MOST_BYTES` long: rows are left out from the end, and counted."""
    for most in (MOST_ROWS, 20, 10, 5, 1, 0):
        data = {
            "status": notice.status,
            "gate": notice.gate,
            "subject": notice.subject,
            "run": notice.run,
            "stamps": notice.stamps,
            "why": notice.why,
            "missed": notice.missed[:most],
            "missed_count": len(notice.missed),
            "passed_count": notice.passed,
            "link": notice.link,
            "ndjson": notice.ndjson,
            "evidence_digest": notice.evidence_digest,
            "policy_digest": notice.policy_digest,
            "version": notice.version,
        }
        said = {"type": _TYPES[notice.status], "timestamp": notice.at, "data": data}
        text = msgspec.json.encode(encodable(msgspec.to_builtins(said)))
        if len(text) <= MOST_BYTES:
            break
    return text


def keys_of(text: str, *, place: str) -> tuple[Key, ...]:
    """Read the keys that a variable holds, one or more with blanks between. Raises Problem, which names `place` alone."""
    keys = tuple(read_key(one, standard=True, place=place) for one in text.split() or [""])
    if any(key.public for key in keys):
        remedy = "give the secret that the receiver handed out, whsec_..."
        raise Problem(place, found="a public key, which signs nothing", wanted="whsec_...", remedy=remedy)
    return keys


def headers(notice: Notice, body: bytes, keys: tuple[Key, ...], *, now_s: int) -> list[tuple[str, str]]:
    """Sign a body as of now."""
    signed = sign(SCHEMES["standard"], body, keys, time_s=now_s, message_id=notice.id)
    return [(name.decode(), value.decode()) for name, value in signed]
