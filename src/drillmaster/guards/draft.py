"""The draft gate: may what a model wrote leave the drafting lane?

1. A draft is a structure with an action, of three: explain a log, draft tests of the deny gate, list fields that nobody
   knows. There is no action for a lock. One that names one (hold, renew, steal, extend, release) is denied before anything
   else is looked at.
2. No field can carry an order, by its type. It is a word of a closed set; a number that was counted; a place in what the
   worker itself showed, so that a name can be chosen and none can be made up; or a text that `rules.drafts` can read, whole,
   as a report.
3. A test that is drafted wants a denial, and nothing else can be said: a model never writes down that something is to be allowed.
4. What a lane may do is the policy's, out of the same three. A lane that it does not name does nothing.
5. A payload with a field more, a field less, a name twice, or of another type is denied whole.
6. A decision says the rule. No word of a draft is in it.
"""

from typing import Annotated, Literal

import msgspec

from drillmaster.guards import Decision, Guard
from drillmaster.rules.drafts import FAULTS, fault_of

__all__ = ["ACTIONS_OF_A_LOCK", "REASONS", "Action", "Draft", "Drafted", "Offered", "Seen", "Tried", "guard"]

REASONS: dict[str, str] = {
    "report": "It is a draft of this lane, and says what was seen.",
    "facts-unusable": "A fact has a type or a size that none can have.",
    "payload-unusable": "What the model returned is no draft: another shape, an unknown field, or no JSON.",
    "lane-unknown": "The policy has no such lane.",
    "lock-action": "It asks for an action of the lock. No model holds, renews, steals, extends or releases.",
    "action-unknown": "An action that nobody has listed.",
    "action-not-here": "This lane does not do that.",
    "empty": "There is nothing in it.",
    "other-part": "A part that is another action's.",
    "not-shown": "It points at something that the worker did not show.",
    "number-range": "A number that nothing can have been counted to.",
    **FAULTS,
}
ACTIONS_OF_A_LOCK = frozenset({"hold", "acquire", "renew", "steal", "extend", "release"})
Action = Literal["explain_log", "draft_test", "list_fields"]
_PARTS: dict[str, str] = {"explain_log": "seen", "draft_test": "tests", "list_fields": "fields"}
_MOST_MS = 366 * 86_400_000
_MOST_COUNT = 1_000_000_000
_MOST_SHOWN = 1_000
_MOST_PARTS = 200
_MOST_BYTES = 64 << 10


class Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a log shows."""

    what: Literal[
        "timed-out", "failed", "refused", "retried", "restarted", "slow", "stalled", "reset", "finished", "unknown"
    ]
    who: int
    """Its place in what was shown, from 0."""
    count: int = 1
    ms: int | None = None
    """How long it took. Nothing is ever set from it."""


class Tried(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One test of the deny gate: who asks, with what token. It wants a denial; there is no field to want another thing."""

    source: Literal["model", "log", "prompt", "file", "nobody"]
    token: Literal["none", "empty", "zero", "leading-zero", "not-ascii", "too-long", "not-text", "stale", "made-up"]
    action: Literal["listed", "unlisted", "not-text"] = "listed"
    want: Literal["deny"] = "deny"


class Draft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model returns. `text` is read by `rules.drafts`; one part beside it, by the action."""

    action: str
    text: str = ""
    seen: tuple[Seen, ...] = ()
    tests: tuple[Tried, ...] = ()
    fields: tuple[int, ...] = ()
    """Places in what was shown, from 0."""


class Offered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draft, where it comes from, and what the model had been shown."""

    lane: str
    """Which lane of a model it comes from."""
    draft: Draft
    """What it returned, decoded."""
    shown: tuple[str, ...] = ()
    """Names that the worker gave: of workers in a redacted log, of fields in an answer of the lock's service."""


class Drafted(Guard[None, Offered], frozen=True, kw_only=True, tag="draft"):
    """Whether a draft of a model may leave its lane.

    Happens: a model has explained a log, drafted tests, or listed fields of an answer.
    Breaks: drafts that ask to hold or to prolong, in whatever words and language; invented names, durations and tokens.
    Looks like: one of the reasons, and no word of the draft.
    Cannot show: that what is reported is true; what a person does who reads it; what the model was shown.
    """

    lanes: dict[str, tuple[Action, ...]]
    """What each lane may do. As the table has it: `drafting` explains and lists, `lab` drafts tests, where it is isolated."""
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=2_000)]
    """Of text."""

    def step(self, state: None, facts: Offered, now_ms: int) -> tuple[None, Decision]:
        """Decide. There is no state."""
        reason = self._judged(facts)
        return None, Decision(allowed=reason == "report", reason=reason)

    def read(self, lane: str, payload: bytes, shown: tuple[str, ...] = ()) -> tuple[Draft | None, Decision]:
        """Decide on the bytes that a model returned; the draft is given where it is allowed, and only there."""
        from drillmaster import strict
        from drillmaster.errors import Problem

        if type(payload) is not bytes:  # a text was decoded by somebody, who may have mended it
            return None, Decision(allowed=False, reason="payload-unusable")
        try:
            draft = strict.load_as(payload, Draft, place="draft", fmt="json", cap_bytes=_MOST_BYTES)
        except (Problem, TypeError, RecursionError):
            return None, Decision(allowed=False, reason="payload-unusable")
        _, decision = self.step(None, Offered(lane=lane, draft=draft, shown=shown), 0)
        return (draft if decision.allowed else None), decision

    def _judged(self, facts: Offered) -> str:
        if not _usable(facts):
            return "facts-unusable"
        draft, lane = facts.draft, self.lanes.get(facts.lane)
        if draft.action in ACTIONS_OF_A_LOCK:
            return "lock-action"
        if draft.action not in _PARTS:
            return "action-unknown"
        if lane is None:
            return "lane-unknown"
        if draft.action not in lane:
            return "action-not-here"
        parts = {"seen": draft.seen, "tests": draft.tests, "fields": draft.fields}
        if any(part and _PARTS[draft.action] != name for name, part in parts.items()):
            return "other-part"
        if not draft.text and not any(parts.values()):
            return "empty"
        return _places(draft, len(facts.shown)) or self._text(facts)

    def _text(self, facts: Offered) -> str:
        if not facts.draft.text:
            return "report"
        if len(facts.draft.text) > self.max_chars:
            return "text-long"
        return fault_of(facts.draft.text, facts.shown) or "report"


def _places(draft: Draft, shown: int) -> str:
    places = (*(one.who for one in draft.seen), *draft.fields)
    if any(not 0 <= place < shown for place in places) or len(set(draft.fields)) != len(draft.fields):
        return "not-shown"
    fits = all(1 <= one.count <= _MOST_COUNT and (one.ms is None or 0 <= one.ms <= _MOST_MS) for one in draft.seen)
    return "" if fits else "number-range"


def _usable(facts: Offered) -> bool:
    """Whether all types are what they say. A struct that was made in code is checked by nobody else."""
    draft = facts.draft
    if type(facts.lane) is not str or type(draft) is not Draft or type(draft.action) is not str:
        return False
    if type(facts.shown) is not tuple or len(facts.shown) > _MOST_SHOWN or type(draft.text) is not str:
        return False
    if any(type(name) is not str or not name or len(name) > 200 for name in facts.shown):
        return False
    for part, kind in ((draft.seen, Seen), (draft.tests, Tried), (draft.fields, int)):
        if type(part) is not tuple or len(part) > _MOST_PARTS or any(type(one) is not kind for one in part):
            return False
    try:
        for one in (*draft.seen, *draft.tests):  # words of closed sets, and whole numbers
            msgspec.convert(msgspec.to_builtins(one), type(one), strict=True)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError, OverflowError):
        return False
    return True


guard = Drafted
