"""The worker behind an inbox: an event, a rule in code, one effect; and a note, where a model finds one in time.

1. The effect comes first, and is in the store before a model is asked. A model decides nothing, and nothing waits for it longer
   than its limit. What it says is checked and kept, or dropped; the event is done either way.
2. A rule is code of the team's: an event's document in, an effect or nothing out. It is asked again when the process died in
   between, so it has to give the same answer and do nothing itself.
3. What a rule cannot read is tried again after a pinned wait, and set aside for a person after so many attempts. An effect that
   is none (money that is text, a float, a bool, nothing) is set aside at once. Nobody sends anything back to the provider.
4. A model that hangs holds a thread, never the worker. While as many threads hang as may, no model is asked.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

import msgspec

from drillmaster.adapters.worker.webhook_notes import checked_note, redacted
from drillmaster.stores.inbox import Effect, Event, Inbox, Unapplied, Unkept, effect_fault
from drillmaster.strict import Malformed, strict_json

__all__ = ["Model", "Rule", "Worked", "Worker", "WorkerLimits"]

_log = logging.getLogger("drillmaster.webhook")
_MOST_HANGING = 4

Model = Callable[[str], object]
"""Takes the redacted copy as JSON text; gives an object, or JSON text of one."""


class Rule(Protocol):
    """Pinned rules, in code."""

    def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
        """Say what an event comes to; None: nothing. Raises what it likes for an event that it cannot read."""


class WorkerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lease_s: Annotated[float, msgspec.Meta(gt=0, le=3_600)]
    """So long is an event one worker's; longer than a rule and its effect take."""
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1_000)]
    retry_after_s: Annotated[float, msgspec.Meta(ge=0, le=3_600)]
    note_within_s: Annotated[float, msgspec.Meta(gt=0, le=600)]
    note_fields: tuple[str, ...] = ()
    """JSON pointers to what a model may see; none: it is not asked."""


class Worked(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one event: effect, nothing, known, lost, retried, parked. `note`: kept, or why not; empty: not asked for."""

    outcome: str
    note: str = ""


class Worker:
    """Takes events one by one. `counts` says how often each outcome was; `apply`: see `Inbox.settle`.

    `source`: the provider whose events the rule is for. Without it the rule is asked about all that the inbox has.
    """

    def __init__(
        self,
        inbox: Inbox,
        rule: Rule,
        limits: WorkerLimits,
        *,
        model: Model | None = None,
        apply: Callable[[Any, Effect, Event], None] | None = None,
        on_worked: Callable[[Worked], None] | None = None,
        source: str | None = None,
    ) -> None:
        self._inbox = inbox
        self._rule = rule
        self._limits = limits
        self._model = model if limits.note_fields else None
        self._apply = apply
        self._on_worked = on_worked
        self._source = source
        self._hanging: list[threading.Thread] = []
        self.counts: dict[str, int] = {}

    def step(self) -> Worked | None:
        """Work on one event; None: there is none. Raises Unkept where the inbox gives no answer; the event stays there."""
        event = self._inbox.claim(lease_ms=round(self._limits.lease_s * 1_000), source=self._source)
        if event is None:
            return None
        outcome = self._settled(event)
        note = self._noted(event) if outcome in ("effect", "nothing") else ""
        worked = Worked(outcome=outcome, note=note)
        for word in (outcome, f"note-{note}") if note else (outcome,):
            self.counts[word] = self.counts.get(word, 0) + 1
        if self._on_worked is not None:
            try:
                self._on_worked(worked)
            except Exception as error:  # noqa: BLE001 - whoever listens ends no worker
                self.counts["listener-failed"] = self.counts.get("listener-failed", 0) + 1
                _log.error("a listener to a worker ended in %s", type(error).__name__)
        return worked

    def run(self, stop: threading.Event, *, idle_s: float = 0.2, away_s: float = 2.0) -> None:
        """Work until told to stop. With nothing to do it looks again after `idle_s`, without an inbox after `away_s`."""
        while not stop.is_set():
            try:
                worked = self.step()
            except Unkept as problem:
                _log.error("the inbox gives no answer: %s", problem)
                stop.wait(away_s)
                continue
            if worked is None:
                stop.wait(idle_s)

    def _settled(self, event: Event) -> str:
        limits = self._limits
        if event.attempt > limits.max_attempts:
            return self._parked(event, "too-many-attempts")
        try:
            document = strict_json(event.body)
        except Malformed:
            return self._parked(event, "json-unusable")
        try:
            effect = self._rule.decide(event.event_id, document)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a rule is not ours, and what it says could quote the event
            _log.warning("a rule ended in %s", type(error).__name__)
            return self._again(event, "rule-failed")
        if effect is not None and effect_fault(effect):
            _log.error("a rule gave %s", effect_fault(effect))
            return self._parked(event, "effect-unusable")
        try:
            settled = self._inbox.settle(
                event, effect, reason="effect" if effect is not None else "nothing", apply=self._apply
            )
        except Unapplied as error:
            _log.warning("an effect's own writes ended in %s", error)
            return self._again(event, "apply-failed")
        if settled == "done":
            return "nothing" if effect is None else "effect"
        return settled

    def _parked(self, event: Event, reason: str) -> str:
        return "parked" if self._inbox.park(event, reason=reason) else "lost"

    def _again(self, event: Event, reason: str) -> str:
        if event.attempt >= self._limits.max_attempts:
            return self._parked(event, reason)
        wait_ms = round(self._limits.retry_after_s * 1_000)
        return "retried" if self._inbox.release(event, reason=reason, wait_ms=wait_ms) else "lost"

    def _noted(self, event: Event) -> str:
        """Ask a model for a note, within its limit; what became of it. It sees of the body that came, whatever a rule did to it."""
        model = self._model
        if model is None:
            return ""
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= _MOST_HANGING:
            return "too-many-hang"
        said: list[object] = []
        failed: list[str] = []

        def ask() -> None:
            try:
                said.append(model(redacted(strict_json(event.body), self._limits.note_fields)))
            except BaseException as error:  # noqa: BLE001 - a model's client may raise whatever it likes
                failed.append(type(error).__name__)

        thread = threading.Thread(target=ask, daemon=True, name="note")
        thread.start()
        ends = time.monotonic() + self._limits.note_within_s
        thread.join(max(0.0, ends - time.monotonic()))
        if thread.is_alive():
            self._hanging.append(thread)
            return "too-late"
        if failed or not said:
            return "failed"
        noted = checked_note(said[0])
        if isinstance(noted, str):
            return noted
        try:
            return "kept" if self._inbox.note(event, noted) else "known"
        except Unkept:
            return "not-stored"
