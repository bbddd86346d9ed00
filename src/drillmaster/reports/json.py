"""JSON: a verdict for machines, and the way back.

    {"kind": "verdict", "schema_version": 1, "exit": 1, "gate": "eviction", "status": "fail", "checks": [...], ...}

Behind the first three keys stand the fields of `Verdict`, in their order, every one of them every time; `counts` is
sorted by name. `observed` is null or an object whose `type` says what kind of measure it is: `exact`, `at_least`,
`at_most`, `absent`. All numbers are finite: one that is not refuses the whole document, since JSON cannot say it and
null would read as "not measured". UTF-8, two spaces of indentation, a newline at the end. The same verdict gives the
same bytes.
"""

import math
from typing import Any, Final

import msgspec

from drillmaster.errors import Problem
from drillmaster.verdict import Verdict

__all__ = ["SCHEMA_VERSION", "document", "parse", "render"]

SCHEMA_VERSION: Final = 1
_ENVELOPE: Final = ("kind", "schema_version", "exit")


def document(verdict: Verdict) -> dict[str, Any]:
    """Turn a verdict into plain lists and dicts; `Problem` where a number is not finite."""
    fields: dict[str, Any] = msgspec.to_builtins(verdict)
    fields["counts"] = dict(sorted(verdict.counts.items()))
    _finite(fields, "")
    return {"kind": "verdict", "schema_version": SCHEMA_VERSION, "exit": int(verdict.exit), **fields}


def render(verdict: Verdict) -> str:
    """Write the document; ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(document(verdict)), indent=2).decode() + "\n"


def parse(data: bytes, *, place: str) -> Verdict:
    """Read a document back; `Problem`, naming `place`, where it is not one."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        if fields.get("kind") != "verdict" or fields.get("schema_version") != SCHEMA_VERSION:
            raise msgspec.ValidationError(f"no verdict of schema_version {SCHEMA_VERSION}")
        code = fields.get("exit")
        for name in _ENVELOPE:
            fields.pop(name, None)
        unknown = set(fields) - set(Verdict.__struct_fields__)
        if unknown:
            raise msgspec.ValidationError(f"an unknown field {min(unknown)!r}")
        verdict = msgspec.convert(fields, Verdict)
        if code != int(verdict.exit):
            raise msgspec.ValidationError(f"exit {code!r} beside status {verdict.status!r}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is a DecodeError
        raise Problem(
            place,
            found=str(error),
            wanted="the JSON form of a verdict, as `gate` writes it",
            remedy="judge the run again: drillmaster gate eviction RUN",
        ) from None
    return verdict


def _finite(value: Any, pointer: str) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise Problem(
                f"verdict: {pointer}",
                found=str(value),
                wanted="a finite number",
                remedy="this is a defect of the gate: report it with the policy that was used",
            )
        case dict():
            for key, inner in value.items():
                _finite(inner, f"{pointer}/{key}")
        case list() | tuple():
            for place, inner in enumerate(value):
                _finite(inner, f"{pointer}/{place}")
