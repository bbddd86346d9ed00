"""What the lines of our own files hold, as far as a judgement needs it (docs/reference/events.md)."""

from typing import Annotated, Any, Literal

import msgspec

from drillmaster.outcomes.shapes import Proof
from drillmaster.targeting import Rule

__all__ = [
    "Attempted",
    "CodeRead",
    "Ended",
    "FaultRule",
    "Gone",
    "Injected",
    "Lifted",
    "Met",
    "Noted",
    "PhaseStarted",
    "Preflown",
    "RuleTally",
    "UserEnd",
    "UserStart",
    "WorkerExited",
    "as_rule",
]


class Injected(msgspec.Struct, frozen=True):
    window: str
    fault: str
    params: dict[str, Any] = {}


class Lifted(msgspec.Struct, frozen=True):
    window: str
    why: str


class Met(msgspec.Struct, frozen=True):
    window: str
    client_bytes: Annotated[int, msgspec.Meta(ge=0)]
    proof: Proof = "bytes"
    rule: str | None = None
    attempt: str | None = None

    def __post_init__(self) -> None:
        if self.rule is not None and self.attempt is None:
            raise ValueError("a rule met no attempt")


class FaultRule(msgspec.Struct, frozen=True, omit_defaults=True):
    window: str
    rule: str
    fault: str
    params: Any = {}
    when: Any = {}
    share: Any = 1.0
    ramp: Any = None
    nth: Any = ()
    skip: Any = 0
    every: Any = 1
    first: Any = None
    schedule: Any = ()
    flap: Any = None


def as_rule(line: FaultRule) -> Rule | None:
    said = msgspec.to_builtins(line)
    del said["window"]
    said["name"], said["mode"] = said.pop("rule"), said.pop("fault")
    try:
        return msgspec.convert(said, Rule)
    except msgspec.ValidationError:
        return None


_Count = Annotated[int, msgspec.Meta(ge=0)]


class RuleTally(msgspec.Struct, frozen=True):
    window: str
    rule: str
    matched: _Count
    taken: _Count
    undecided: _Count = 0
    saw: tuple[str, ...] = ()


class Attempted(msgspec.Struct, frozen=True):
    id: str
    window: str | None
    status: int | None
    start_ns: int
    end_ns: int
    end: str
    upstream: bool
    terminal: bool | None
    intact: bool = False
    trace: str | None = None
    nonce: str | None = None
    retry_count: int | None = None
    dialect: str = ""
    model: str | None = None
    first_ns: int | None = None
    asked_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    asked_by: str | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    tokens_estimated: Annotated[int, msgspec.Meta(ge=0)] | None = None
    stream: bool | None = None
    down_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


class UserStart(msgspec.Struct, frozen=True, tag_field="phase", tag="start"):
    id: str
    due_ns: int
    sent_ns: int | None = None
    trace: str | None = None
    nonce: str | None = None
    payload: int | None = None


class UserEnd(msgspec.Struct, frozen=True, tag_field="phase", tag="end"):
    id: str
    end_ns: int
    result: Literal["answered", "timeout", "reset", "refused", "cut", "protocol"]
    answer: Literal["ok", "empty", "degraded"] | None
    status: int | None
    sent_ns: int | None = None
    first_ns: int | None = None
    source: Literal["primary", "fallback"] | None = None


class Noted(msgspec.Struct, frozen=True):
    kind: str
    text: str = ""
    by: str = ""
    seen_at: str | None = None


class PhaseStarted(msgspec.Struct, frozen=True):
    phase: str
    planned_s: float | None = None


class CodeRead(msgspec.Struct, frozen=True):
    at: str
    commit: str | None = None
    dirt_sha256: str | None = None
    plan_sha256: str | None = None
    policy_sha256: str | None = None


class Preflown(msgspec.Struct, frozen=True):
    check: str
    status: str
    why: str = ""
    by: str | None = None
    at: str | None = None


class Gone(msgspec.Struct, frozen=True):
    window: str
    gone: bool
    why: str = ""


class WorkerExited(msgspec.Struct, frozen=True):
    code: int | None
    expected: bool = False


class Ended(msgspec.Struct, frozen=True):
    status: Literal["completed", "aborted"]
    why: str = ""
