"""A cutover plan as the article writes it: `plan.json`, 20 fields, each of one type, none of them optional.

1. A plan is read whole. What is missing, unknown or of another type is a fault with its pointer, and no field's fault
   hides another's: a person who mends a plan sees all of them at once.
2. Nothing is converted: `"5"` is no 5, `true` is no 1, `1.5` percent is no percent, a list of one is no text.
3. Text is text that people can see: in Unicode normal form C, without characters that are not drawn, of one line.
4. A time is RFC 3339 in UTC (`Z` or `+00:00`): a window that every reader has to convert is two windows.
5. The timed fields are the four of `traffic` and the four of `window`: the ones that somebody has to answer for.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.clock import parse_rfc3339

__all__ = ["TIMED", "Fault", "Plan", "read_plan", "timed_values", "utc_ns"]

_SHAPE: dict[str, dict[str, type]] = {
    "": {"plan_id": str, "service": str},
    "authors": {"draft": str, "timed_fields": str, "rollback_owner": str},
    "traffic": {
        "initial_percent": int,
        "step_percent": int,
        "max_percent_before_freeze": int,
        "error_budget_ppm": int,
    },
    "window": {
        "freeze_start_utc": str,
        "freeze_end_utc": str,
        "dual_write_required": bool,
        "old_writer_delete_same_window": bool,
    },
    "halt": {"on_checksum_mismatch": str, "on_retry_storm": str, "on_free_lane_author_for_timed_fields": str},
    "idempotency": {"key_format": str, "author": str},
    "controller": {"runtime": str, "free_server_forbidden": bool},
}
TIMED = tuple(f"/{group}/{field}" for group in ("traffic", "window") for field in _SHAPE[group])
"""Pointers of the timed fields."""
_WORDS = {str: "text", int: "a whole number", bool: "true or false"}
_MAX_TEXT = 200
_WHY: dict[str, str] = {
    "feature_flag_default": "a plan sets no default of a flag; it is off, and freeze-proof.json says what was read back",
    "ledger": "the ledger is a durable store's; a plan says nothing of it",
}


class Fault(msgspec.Struct, frozen=True):
    """What does not fit, where (a JSON pointer), and the one edit that mends it."""

    pointer: str
    found: str
    wanted: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: found {self.found}, wanted {self.wanted}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan's values; None where one is missing or of another type, and `faults` says which. Percents, not shares."""

    plan_id: str | None = None
    service: str | None = None
    draft: str | None = None
    timed_fields: str | None = None
    rollback_owner: str | None = None
    initial_percent: int | None = None
    step_percent: int | None = None
    max_percent_before_freeze: int | None = None
    error_budget_ppm: int | None = None
    """Errors in a million requests."""
    freeze_start_utc: str | None = None
    freeze_end_utc: str | None = None
    dual_write_required: bool | None = None
    old_writer_delete_same_window: bool | None = None
    on_checksum_mismatch: str | None = None
    on_retry_storm: str | None = None
    on_free_lane_author_for_timed_fields: str | None = None
    key_format: str | None = None
    author: str | None = None
    runtime: str | None = None
    free_server_forbidden: bool | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def start_ns(self) -> int | None:
        """Begin of the freeze, wall time; None where it is no time in UTC."""
        return utc_ns(self.freeze_start_utc)

    @property
    def end_ns(self) -> int | None:
        return utc_ns(self.freeze_end_utc)

    def ladder(self) -> tuple[int, ...]:
        """List the percents that traffic stands at before the freeze; () where the numbers make none."""
        first, step, last = self.initial_percent, self.step_percent, self.max_percent_before_freeze
        if first is None or step is None or last is None or not (1 <= first <= last <= 100) or step < 1:
            return ()
        rungs = [*range(first, last + 1, step)]
        return (*rungs, last) if rungs[-1] != last else (*rungs,)


def read_plan(loaded: object) -> Plan:
    """Take a plan from a loaded value (`strict.load`), with every fault in it."""
    if not isinstance(loaded, Mapping):
        wanted = "an object with plan_id, service, authors and the rest"
        return Plan(faults=(Fault("", strict.shown(loaded), wanted, "name the plan's own file"),))
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    top = [*_SHAPE[""], *(group for group in _SHAPE if group)]
    faults += _unknown(loaded, top, "")
    for group, fields in _SHAPE.items():
        at = f"/{group}" if group else ""
        part = loaded.get(group) if group else loaded
        if group and not isinstance(part, Mapping):
            found = strict.shown(part) if group in loaded else "nothing"
            faults.append(
                Fault(at, found, f"an object with {', '.join(fields)}", f"write {group} as the plan's form has it")
            )
            continue
        assert isinstance(part, Mapping)
        if group:
            faults += _unknown(part, fields, at)
        for field, type_ in fields.items():
            fault = _fault(part, field, type_, f"{at}/{field}")
            if fault is not None:
                faults.append(fault)
            else:
                values[field] = part[field]
    return Plan(**values, faults=tuple(faults))


def timed_values(loaded: object) -> dict[str, object]:
    """Give the timed fields of a loaded plan by pointer, whatever stands there; what is missing is left out."""
    found: dict[str, object] = {}
    if isinstance(loaded, Mapping):
        for pointer in TIMED:
            _, group, field = pointer.split("/")
            part = loaded.get(group)
            if isinstance(part, Mapping) and field in part:
                found[pointer] = part[field]
    return found


def utc_ns(text: str | None) -> int | None:
    """Read a time by rule 4."""
    if text is None or not text.endswith(("Z", "z", "+00:00")):
        return None
    return parse_rfc3339(text)


def _unknown(part: Mapping[str, object], known: list[str] | dict[str, type], at: str) -> Iterator[Fault]:
    for name in part:
        if name not in known:
            meant = strict.near(name, [one for one in known if one not in part])
            remedy = _WHY.get(name) or (f"did you mean {meant}?" if meant else f"delete {name}: nothing reads it")
            yield Fault(
                at + strict.pointer((name,)),
                f"the unknown field {strict.shown(name)}",
                f"only {', '.join(known)}",
                remedy,
            )


def _fault(part: Mapping[str, object], field: str, type_: type, pointer: str) -> Fault | None:
    wanted = _WORDS[type_]
    if field not in part:
        return Fault(pointer, "nothing", wanted, f"add {field}")
    value = part[field]
    if type(value) is not type_:
        return Fault(pointer, strict.shown(value), wanted, f"write {field} as {wanted}")
    if isinstance(value, str):
        if len(value) > _MAX_TEXT:
            return Fault(pointer, f"{len(value):,} characters", f"at most {_MAX_TEXT}", f"shorten {field}")
        hidden = next((c for c in value if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")), None)
        if hidden is not None or not unicodedata.is_normalized("NFC", value):
            what = f"a character that cannot be seen (U+{ord(hidden):04X})" if hidden else "another form than NFC"
            return Fault(pointer, what, "text that reads as it is", f"type {field} again")
    return None
