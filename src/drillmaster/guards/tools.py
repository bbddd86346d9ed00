"""The tools guard: may this worker start a tool server, go on with it, and make this call?

1. In this order the first that holds decides: facts that are none (`facts-unusable`), a session that was halted (`halted`), no
   signed list in memory (`no-contracts`); then what the asked act wants, in the order of REASONS. Else `server-holds` or
   `contract-holds`.
2. What differs from what was signed halts the session: a program that is another file, a tool that changed, came or went. A halted
   session allows nothing more; a new one is begun by a person's restart, and compared anew.
3. A call wants a comparison with the live server in this session that is not too old. A server that says that its list changed, or
   is asked for the first time, has none.
4. Privileges are words of a closed set. A contract's are all known and all granted to this worker, or the call is denied.
5. Arguments arrive as counts: how many bytes, how many names that the contract does not have, how many values that do not fit.
   What they say has no field here.
"""

from typing import Annotated, Literal

import msgspec

from drillmaster.guards import Decision, Guard

__all__ = ["HALTS", "LIMITS", "REASONS", "Session", "ToolUse", "Tools", "guard"]

REASONS: dict[str, str] = {
    "server-holds": "What is started, or offered, is what was signed.",
    "contract-holds": "The call is one that the signed contract lets through.",
    "facts-unusable": "A fact has a type or a size that none can have.",
    "halted": "This session met something that was not signed, and allows nothing more.",
    "no-contracts": "No signed list was ever loaded.",
    "command-not-listed": "The list has no such server, or no words to start it by.",
    "command-refused": "The words that start the server are not ones that the policy lets run.",
    "program-changed": "A program of the command is not the file that was pinned.",
    "listing-unreadable": "What the server offers could not be read whole.",
    "nothing-offered": "The server offers no tool: nothing was compared.",
    "tool-changed": "A tool is offered with other JSON than was signed, or beside another that looks like it.",
    "tool-removed": "A signed tool is no longer offered.",
    "tool-added": "A tool is offered that is neither allowed nor withheld.",
    "not-compared": "What the server offers was not compared since the session began, or since it said that its list changed.",
    "listing-stale": "The last comparison with the server is too long ago.",
    "tool-lookalike": "The name is not one of the list, and looks like one.",
    "tool-not-allowed": "The list has no such tool.",
    "not-pinned": "The contract pins nothing, or the server offers nothing that could be held against it.",
    "pin-changed": "The tool is offered with another digest than its contract has.",
    "privileges-missing": "The contract gives no privilege.",
    "privilege-unknown": "The contract names a privilege that there is not.",
    "privilege-not-granted": "The contract's privilege is not this worker's.",
    "call-unfinished": "The answer ended before the call was whole.",
    "call-repeated": "A call of this id was there before.",
    "call-kind-unknown": "It is a kind of call that has no contract.",
    "arguments-too-large": "The arguments are larger than any call may be.",
    "arguments-unreadable": "The arguments are not one JSON object by strict rules.",
    "schema-unusable": "The schema that the arguments are held against cannot be used.",
    "arguments-unknown": "An argument is given that the contract does not have.",
    "arguments-misfit": "An argument is missing, or does not fit the contract.",
    "calls-exhausted": "The session has made as many calls as it may.",
}
LIMITS: dict[str, tuple[str, ...]] = {
    "not-compared": ("wire",),
    "listing-stale": ("max_compared_ms",),
    "not-pinned": ("wire",),
    "privilege-unknown": ("privileges",),
    "privilege-not-granted": ("granted",),
    "arguments-too-large": ("max_arguments_bytes",),
    "calls-exhausted": ("max_calls",),
}
"""Which limits a reason was held against."""
HALTS = frozenset({"program-changed", "tool-changed", "tool-removed", "tool-added", "pin-changed"})
"""Reasons that end a session."""

_MOST = 2**53 - 1
_DIGEST = r"^(sha256:[0-9a-f]{64})?$"
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Digest = Annotated[str, msgspec.Meta(pattern=_DIGEST)]


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker knows of what it is about to do. There is no field for a description, an argument or an answer."""

    asks: Literal["start", "open", "call"]
    """`start` a server's process; `open` it, with what it offers; `call` one of its tools."""
    list_sha256: _Digest
    """Of the signed list in memory; "": there is none."""
    server: str = ""
    tool: str = ""
    # Of a start.
    listed: bool = False
    """Whether the list has words for this server. Of a call: whether it has a contract of that name."""
    command_faults: int = 0
    programs_changed: int = 0
    # Of an open.
    readable: bool = True
    offered: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    moved: bool = False
    """Whether the server said that its list changed after it was asked for it."""
    # Of a call.
    compared_ms_ago: int | None = None
    """Since the last comparison with the live server that held; None: there was none."""
    looks_like_another: bool = False
    pinned_sha256: _Digest = ""
    offered_sha256: _Digest = ""
    privileges: tuple[str, ...] = ()
    finished: bool = True
    repeated: bool = False
    kind_known: bool = True
    arguments_bytes: int = 0
    arguments_read: bool = False
    schema_usable: bool = True
    arguments_unknown: int = 0
    arguments_misfit: int = 0


class Session(msgspec.Struct, frozen=True):
    """What became of a session so far: calls that were allowed, and the reason that ended it."""

    calls: int = 0
    halted: str = ""


class Tools(Guard[Session, ToolUse], frozen=True, kw_only=True, tag="tools"):
    """Whether a tool may be called as its signed contract says.

    Happens: a model asks for a tool; the worker has a list that a person signed, and a server that offers what it offers.
    Breaks: a server that changed what it offers, an argument that nobody wrote down, a privilege that is another worker's.
    Looks like: one of the reasons, and how many calls are left; a session that is halted stays so.
    Cannot show: that a tool does what it says; that what a server offered when it was asked is what it runs a moment later.
    """

    privileges: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1, max_length=100)]
    """All privileges there are."""
    granted: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)]
    """Those of this worker."""
    wire: Literal["pinned", "not compared"]
    """Whether what servers offer has to match pins; `not compared` is for tools that are functions of the worker itself."""
    max_compared_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]
    """How old the last comparison may be; 0: before every call."""
    max_arguments_bytes: Annotated[int, msgspec.Meta(ge=2, le=1 << 24)]
    """Of one call, in canonical JSON or as they came, whichever is more."""
    max_calls: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    """Of one session."""

    def __post_init__(self) -> None:
        more = sorted(set(self.granted) - set(self.privileges))
        if more:
            raise ValueError(f"granted: found {more[0]!r}, wanted words of `privileges`")

    def step(self, state: Session | None, facts: ToolUse, now_ms: int) -> tuple[Session | None, Decision]:
        """Decide. The state that follows counts an allowed call, and keeps what halted the session."""
        session = state or Session()
        reason = self._judged(session, facts)
        if reason in HALTS:
            session = Session(session.calls, reason)
        elif reason == "contract-holds":
            session = Session(session.calls + 1)
        allowed = reason in ("contract-holds", "server-holds")
        return session, Decision(allowed=allowed, reason=reason, left=max(0, self.max_calls - session.calls))

    def _judged(self, session: Session, facts: ToolUse) -> str:
        if _unusable(facts):
            return "facts-unusable"
        if session.halted:
            return "halted"
        if not facts.list_sha256:
            return "no-contracts"
        if facts.asks == "start":
            return _start(facts)
        if facts.asks == "open":
            return _opened(facts)
        return self._call(session, facts)

    def _call(self, session: Session, facts: ToolUse) -> str:
        if not facts.kind_known:
            return "call-kind-unknown"
        if self.wire == "pinned":
            if facts.compared_ms_ago is None:
                return "not-compared"
            if facts.compared_ms_ago > self.max_compared_ms:
                return "listing-stale"
        if not facts.listed:
            return "tool-lookalike" if facts.looks_like_another else "tool-not-allowed"
        if self.wire == "pinned":
            if not facts.pinned_sha256 or not facts.offered_sha256:
                return "not-pinned"
            if facts.pinned_sha256 != facts.offered_sha256:
                return "pin-changed"
        if not facts.privileges:
            return "privileges-missing"
        if not set(self.privileges).issuperset(facts.privileges):
            return "privilege-unknown"
        if not set(self.granted).issuperset(facts.privileges):
            return "privilege-not-granted"
        return self._arguments(facts) or ("calls-exhausted" if session.calls >= self.max_calls else "contract-holds")

    def _arguments(self, facts: ToolUse) -> str:
        if not facts.finished:
            return "call-unfinished"
        if facts.repeated:
            return "call-repeated"
        if facts.arguments_bytes > self.max_arguments_bytes:
            return "arguments-too-large"
        if not facts.arguments_read:
            return "arguments-unreadable"
        if not facts.schema_usable:
            return "schema-unusable"
        if facts.arguments_unknown:
            return "arguments-unknown"
        return "arguments-misfit" if facts.arguments_misfit else ""


def _start(facts: ToolUse) -> str:
    if not facts.listed:
        return "command-not-listed"
    if facts.command_faults:
        return "command-refused"
    return "program-changed" if facts.programs_changed else "server-holds"


def _opened(facts: ToolUse) -> str:
    if not facts.readable:
        return "listing-unreadable"
    if facts.changed:
        return "tool-changed"
    if facts.removed:
        return "tool-removed"
    if facts.added:
        return "tool-added"
    if facts.moved:
        return "not-compared"
    return "server-holds" if facts.offered else "nothing-offered"


_COUNTS = (
    "command_faults", "programs_changed", "offered", "changed", "added", "removed", "arguments_bytes", "arguments_unknown",
    "arguments_misfit",
)  # fmt: skip  # words
_FLAGS = (
    "listed", "readable", "moved", "looks_like_another", "finished", "repeated", "kind_known", "arguments_read", "schema_usable",
)  # fmt: skip  # words


def _unusable(facts: ToolUse) -> bool:
    """Whether a fact is none. Types are looked at too: a struct that was made in code is checked by nobody else."""
    counts = [getattr(facts, name) for name in _COUNTS]
    if facts.compared_ms_ago is not None:
        counts.append(facts.compared_ms_ago)
    if any(type(one) is not int or not 0 <= one <= _MOST for one in counts):
        return True
    if any(type(getattr(facts, name)) is not bool for name in _FLAGS):
        return True
    if any(type(one) is not str for one in (facts.server, facts.tool)):
        return True
    if type(facts.privileges) is not tuple or any(type(one) is not str for one in facts.privileges):
        return True
    return facts.asks not in ("start", "open", "call") or not all(
        map(_is_digest, (facts.list_sha256, facts.pinned_sha256, facts.offered_sha256))
    )


def _is_digest(said: object) -> bool:
    if type(said) is not str:
        return False
    digits = said.removeprefix("sha256:")
    return not said or (said != digits and len(digits) == 64 and not digits.strip("0123456789abcdef"))


guard = Tools
