"""An inbox beside a model of it, for hypothesis: whatever is asked of it in whatever order, on connections that are cut and by a
clock that is moved both ways."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from drillmaster.stores.inbox import LONGEST_WAIT_MS, Arrival, Counts, Effect, Event, Inbox, Noted, Unkept

LEASE_MS = 20_000
IDS = st.sampled_from([f"evt_{n}" for n in range(6)])


class Kept:
    """What the model knows of one event."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.state = "waiting"
        self.claim = ""
        self.claimed_ms = 0
        self.not_before_ms: int | None = None
        self.attempts = 0

    def is_free(self, now_ms: int) -> bool:
        if self.state != "waiting":
            return False
        if self.claim and self.claimed_ms <= now_ms < self.claimed_ms + LEASE_MS:
            return False
        wait = self.not_before_ms
        return wait is None or wait <= now_ms or wait > now_ms + LONGEST_WAIT_MS


class InboxMachine(RuleBasedStateMachine):
    """`opened` gives an inbox on an empty database each; `move` moves its clock by milliseconds; `cut` breaks its connections."""

    opened: Callable[[], Inbox]
    move: Callable[[int], None]
    cut: Callable[[Inbox], None]
    empty: Callable[[], None]

    @initialize()
    def begin(self) -> None:
        type(self).empty()
        self.inboxes = [type(self).opened(), type(self).opened()]
        self.model: dict[str, Kept] = {}
        self.others: set[tuple[str, str]] = set()
        self.effects: dict[str, int] = {}
        self.notes: set[str] = set()
        self.claims: list[Event] = []
        self.now_ms = 0

    def teardown(self) -> None:
        for inbox in getattr(self, "inboxes", []):
            inbox.close()

    def ask(self, which: int, what: Callable[[Inbox], Any]) -> Any:
        """Ask one of both; what is not answered is asked again, as a worker does."""
        try:
            return what(self.inboxes[which])
        except Unkept:
            return what(self.inboxes[which])

    @rule(which=st.integers(0, 1), name=IDS, digest=st.sampled_from("ab"), together=st.booleans())
    def keep(self, which: int, name: str, digest: str, together: bool) -> None:
        arrival = Arrival(source="acme", event_id=name, digest=digest, body=digest.encode())
        if together:
            other = Arrival(source="other", event_id=name, digest="x", body=b"")
            told = self.ask(which, lambda inbox: inbox.keep_all([arrival, other]))[0]
            self.model.setdefault(f"other {name}", Kept("x")).state = "elsewhere"
        else:
            told = self.ask(which, lambda inbox: inbox.keep(arrival))
        known = self.model.get(name)
        if known is None:
            assert told == "new"
            self.model[name] = Kept(digest)
        elif known.digest == digest:
            assert told == "known"
        else:
            assert told == "other-body"
            self.others.add((name, digest))

    @rule(which=st.integers(0, 1))
    def claim(self, which: int) -> None:
        event = self.ask(which, lambda inbox: inbox.claim(lease_ms=LEASE_MS))
        while event is not None and event.source == "other":  # somebody else's: set aside
            self.ask(which, lambda inbox, event=event: inbox.park(event, reason="x"))
            event = self.ask(which, lambda inbox: inbox.claim(lease_ms=LEASE_MS))
        free = [name for name, kept in self.model.items() if kept.is_free(self.now_ms)]
        if not free:
            assert event is None
            return
        assert event is not None and event.event_id == free[0]
        kept = self.model[event.event_id]
        kept.claim, kept.claimed_ms, kept.attempts = event.claim, self.now_ms, kept.attempts + 1
        assert event.attempt == kept.attempts and event.body == kept.digest.encode()
        self.claims.append(event)

    def is_mine(self, event: Event) -> bool:
        kept = self.model[event.event_id]
        return kept.state == "waiting" and kept.claim == event.claim

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 1), data=st.data(), amount=st.integers(0, 3))
    def settle(self, which: int, data: Any, amount: int) -> None:
        event = data.draw(st.sampled_from(self.claims))
        effect = Effect(kind="credit", account="a", amount_minor=amount, currency="EUR") if amount else None
        told = self.ask(which, lambda inbox: inbox.settle(event, effect, reason="x"))
        assert told == ("done" if self.is_mine(event) else "lost")
        if told == "done":
            self.model[event.event_id].state = "done"
            if amount:
                self.effects[event.event_id] = amount

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 1), data=st.data(), wait_ms=st.sampled_from([0, 30_000, 10**9]))
    def release(self, which: int, data: Any, wait_ms: int) -> None:
        event = data.draw(st.sampled_from(self.claims))
        assert self.ask(which, lambda inbox: inbox.release(event, reason="x", wait_ms=wait_ms)) == self.is_mine(event)
        if self.is_mine(event):
            kept = self.model[event.event_id]
            kept.claim, kept.not_before_ms = "", self.now_ms + min(wait_ms, LONGEST_WAIT_MS)

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 1), data=st.data())
    def park(self, which: int, data: Any) -> None:
        event = data.draw(st.sampled_from(self.claims))
        assert self.ask(which, lambda inbox: inbox.park(event, reason="x")) == self.is_mine(event)
        if self.is_mine(event):
            self.model[event.event_id].state = "parked"

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 1), data=st.data())
    def note(self, which: int, data: Any) -> None:
        event = data.draw(st.sampled_from(self.claims))
        told = self.ask(which, lambda inbox: inbox.note(event, Noted(headline="x", risk="low")))
        assert told == (event.event_id not in self.notes)
        self.notes.add(event.event_id)

    @rule(ms=st.sampled_from([10_000, 25_000, 3_700_000, -10_000, -25_000, -3_700_000]))
    def clock_moves(self, ms: int) -> None:
        type(self).move(ms)
        self.now_ms += ms

    @rule(which=st.integers(0, 1))
    def is_cut(self, which: int) -> None:
        type(self).cut(self.inboxes[which])

    @invariant()
    def what_there_is_is_what_the_model_has(self) -> None:
        if not hasattr(self, "inboxes"):
            return
        mine = [kept for name, kept in self.model.items() if kept.state != "elsewhere"]
        counts = self.ask(0, lambda inbox: inbox.counts())
        assert isinstance(counts, Counts)
        assert (counts.done, counts.effects, counts.notes) == (
            sum(kept.state == "done" for kept in mine),
            len(self.effects),
            len(self.notes),
        )
        assert counts.other_bodies == len(self.others)
        for name, amount in self.effects.items():
            effect = self.ask(1, lambda inbox, name=name: inbox.effect_of("acme", name))
            assert effect is not None and effect.amount_minor == amount
