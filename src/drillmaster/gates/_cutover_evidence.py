"""What the cutover gate judges: the plan, the files beside it, and what the base ref says of the people in it."""

from typing import Annotated, Literal

import msgspec

from drillmaster.changes import Commit, Person, Roster
from drillmaster.rules.cutover_plan import Plan
from drillmaster.rules.lanes import person_of_email, person_of_identity, person_of_login

__all__ = ["ErrorBudget", "Evidence", "FreezeProof", "HaltDrill", "Set", "Tied", "person_named", "phase"]

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Span = Annotated[float, msgspec.Meta(ge=0, le=366 * 86_400)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class HaltDrill(_File, frozen=True, kw_only=True):
    """`kind: halt-drill`, as `drillmaster cutover rehearse` writes it. Times are RFC 3339, spans seconds of one clock."""

    kind: Literal["halt-drill"]
    version: Literal[1]
    service: _Text
    plan_digest: str
    """Of the plan it was rehearsed for; "": for none."""
    halted_by: _Text
    """A name of the roster. Who halted is a person, and is not the program."""
    asked: Literal["terminal", "option"]
    """Where that name came from."""
    drift: _Text
    """What differed. `synthetic` is what the kit made; rows of customers are nobody's to drift."""
    rows: _Count
    drifted_rows: _Count
    found_rows: _Count
    """How many of those the compare found."""
    injected_at: str
    restored_at: str
    detection_s: _Span
    """From the drift to its detection."""
    halt_s: _Span
    """From the detection to the halt, by a person."""
    recovery_s: _Span
    """From the halt until both stores were the same again and were written."""
    equal_after: bool
    produced_by: _Text
    produced_at: str
    digest: str
    """Of all other fields, in canonical form."""


class ErrorBudget(_File, frozen=True, kw_only=True):
    """`kind: error-budget`: what was counted of the path that has the traffic now."""

    kind: Literal["error-budget"]
    version: Literal[1]
    service: _Text
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    """The collector that counted, and what it was asked."""
    window_start: str
    window_end: str
    requests: _Count
    errors: _Count
    produced_by: _Text
    produced_at: str


class FreezeProof(_File, frozen=True, kw_only=True):
    """`kind: freeze-proof`: what flag store and router answered after the freeze was set. Read back, not what was written."""

    kind: Literal["freeze-proof"]
    version: Literal[1]
    service: _Text
    plan_digest: _Digest
    flag: _Text
    frozen: bool
    """What was read back of the freeze."""
    percent: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """Read back, in percent of the traffic."""
    flag_default_on: bool
    """What a caller gets from whom the flag store hides: a flag that is missing answers with its default."""
    dual_write: bool
    old_writer: bool
    """Whether the old writer still writes."""
    read_at: str
    read_by: _Text


class Set(msgspec.Struct, frozen=True, kw_only=True):
    """One timed field, and the commit that last changed it."""

    pointer: str
    commit: Commit


class Tied(msgspec.Struct, frozen=True, kw_only=True):
    """What the base ref and the history of the plan say."""

    base: str
    roster: Roster | None
    signed: bool
    """Whether the base has allowed_signers: then commits count by signature, else by author line."""
    committed: bool
    """Whether the plan's bytes are the ones that were committed."""
    settings: tuple[Set, ...] = ()
    history: str = ""
    """Why the history cannot be told; "": it is."""
    reviewers: tuple[str, ...] = ()
    """Identities whose signatures of the plan's bytes held."""
    review: str = ""
    """Why there are none, or what is wrong with one."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and what there is beside it. None: no such file, or no base ref. `now_ns` is wall time."""

    plan: Plan
    digest: str
    """`sha256:` of the plan's bytes."""
    accepted: str | None = None
    """The digest that was accepted, as whoever is about to shift names it."""
    tied: Tied | None = None
    drill: HaltDrill | None = None
    budget: ErrorBudget | None = None
    freeze: FreezeProof | None = None
    now_ns: int
    place: str = "plan.json"
    """The plan as it was named, in the words of a shell: remedies name it so."""


def phase(plan: Plan, now_ns: int) -> Literal["ahead", "inside", "over", "unknown"]:
    """Say where now stands to the window; its ends are in it."""
    if plan.start_ns is None or plan.end_ns is None or plan.start_ns >= plan.end_ns:
        return "unknown"
    return "ahead" if now_ns < plan.start_ns else "inside" if now_ns <= plan.end_ns else "over"


def person_named(roster: Roster | None, name: str, *, now_ns: int) -> Person | None:
    """Find whom `human:NAME` names: by identity, address or account."""
    return (
        person_of_identity(roster, name, now_ns=now_ns)
        or person_of_login(roster, name, now_ns=now_ns)
        or (person_of_email(roster, name, now_ns=now_ns) if "@" in name else None)
    )
