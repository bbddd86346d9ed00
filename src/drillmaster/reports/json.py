"""JSON: a verdict for machines, and the way back.

    {"kind": "verdict", "schema_version": 1, "exit": 1, "gate": "eviction", "status": "fail", "checks": [...], ...}

Behind the first three keys stand the fields of `Verdict`, in their order, every one of them every time; `counts` is
sorted by name. `observed` is null or an object whose `type` says what kind of measure it is: `exact`, `at_least`,
`at_most`, `absent`. Whole numbers are written whole. All numbers are finite: one that is not refuses the whole
document, since JSON cannot say it and null would read as "not measured". UTF-8, two spaces of indentation, a newline at
the end. The same verdict gives the same bytes.
"""

import math
from typing import Any, Final

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.reports import encodable
from drillmaster.verdict import Verdict, conclude

__all__ = ["SCHEMA_VERSION", "document", "parse", "render"]

SCHEMA_VERSION: Final = 1
_WHOLE: Final = 2**53  # past it a float does not tell whole numbers apart
_ENVELOPE: Final = ("kind", "schema_version", "exit")


def document(verdict: Verdict) -> dict[str, Any]:
    """Turn a verdict into plain lists and dicts; `Problem` where a number is not finite."""
    fields: dict[str, Any] = encodable(msgspec.to_builtins(verdict))
    fields["counts"] = dict(sorted(fields["counts"].items()))
    return {"kind": "verdict", "schema_version": SCHEMA_VERSION, "exit": int(verdict.exit), **_plain(fields, "")}


def render(verdict: Verdict) -> str:
    """Write the document; ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(document(verdict)), indent=2).decode() + "\n"


def parse(data: bytes, *, place: str) -> Verdict:
    """Read a document back; `Problem`, naming `place`, where it is not one, or contradicts itself."""
    try:
        fields = strict.load(data, place=place, fmt="json")
        if not isinstance(fields, dict) or fields.get("kind") != "verdict":
            raise Problem(place, found="no kind: verdict", wanted="the JSON form of a verdict", remedy="")
        if fields.get("schema_version") != SCHEMA_VERSION:
            found = f"schema_version {fields.get('schema_version')!r}"
            raise Problem(place, found=found, wanted=str(SCHEMA_VERSION), remedy="")
        code = fields.get("exit")
        verdict = strict.as_type({k: v for k, v in fields.items() if k not in _ENVELOPE}, Verdict, place=place)
        if code != int(verdict.exit) or verdict.status != conclude(verdict.checks):
            found = f"status {verdict.status} and exit {code!r}"
            wanted = f"what its checks add up to, {conclude(verdict.checks)}"
            raise Problem(place, found=found, wanted=wanted, remedy="")
    except Problem as problem:
        raise Problem(
            problem.place,
            found=problem.found,
            wanted=problem.wanted,
            remedy="judge the run again: drillmaster gate DRILL RUN",
        ) from None
    return verdict


def _plain(value: Any, pointer: str) -> Any:
    """Write whole numbers whole, so that 900.0 and 900, which are equal, give the same bytes; refuse what is not finite."""
    match value:
        case float() if not math.isfinite(value):
            raise Problem(
                f"verdict: {pointer}",
                found=str(value),
                wanted="a finite number",
                remedy="this is a defect of the gate: report it with the policy that was used",
            )
        case float() if value == int(value) and abs(value) <= _WHOLE:
            return int(value)
        case dict():
            return {key: _plain(inner, f"{pointer}/{key}") for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner, f"{pointer}/{place}") for place, inner in enumerate(value)]
    return value
