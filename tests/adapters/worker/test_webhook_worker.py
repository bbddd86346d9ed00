"""The worker behind an inbox: one effect an event, typed money, notes that come in time or are dropped."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.webhook_worker import Worker, WorkerLimits
from drillmaster.clock import ManualClock
from drillmaster.stores.inbox import Arrival, Effect, Event, Inbox, Noted, Unkept
from drillmaster.stores.inbox_sqlite import SQLite

LIMITS = WorkerLimits(lease_s=10, max_attempts=3, retry_after_s=60, note_within_s=5, note_fields=("/type",))


class Credit:
    """Grants what stands in the event, whatever it is."""

    def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
        if document["type"] != "invoice.paid":
            return None
        return Effect(kind="credit", account="a", amount_minor=document["amount"], currency="EUR")


class Stage:
    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.backend = SQLite(str(path), within_s=1, clock=self.clock)
        self.inbox = Inbox(self.backend)
        self.inbox.prepare()

    def keep(self, name: str, **fields: Any) -> None:
        body = json.dumps({"type": "invoice.paid", "amount": 5, **fields}).encode()
        self.inbox.keep(Arrival(source="acme", event_id=name, digest=name, body=body))

    def worker(self, rule: Any = None, **more: Any) -> Worker:
        return Worker(self.inbox, rule or Credit(), more.pop("limits", LIMITS), **more)

    def effects(self) -> int:
        return self.inbox.counts().effects


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "inbox.db")
    yield made
    made.inbox.close()


def test_an_event_is_worked_on_once_and_has_one_effect(stage: Stage) -> None:
    stage.keep("e1")
    stage.keep("e2", type="other")
    worker = stage.worker()
    told = [worker.step(), worker.step(), worker.step()]
    assert [one and one.outcome for one in told] == ["effect", "nothing", None]
    assert stage.inbox.effect_of("acme", "e1") == Effect(kind="credit", account="a", amount_minor=5, currency="EUR")
    assert stage.inbox.effect_of("acme", "e2") is None
    assert (stage.inbox.counts().done, stage.inbox.counts().waiting) == (2, 0)


@pytest.mark.parametrize("amount", ["5", True, False, 0, -5, 5.0, 0.1, None, [], 2**53, "NaN"])
def test_what_is_no_money_has_no_effect_and_waits_for_a_person(stage: Stage, amount: Any) -> None:
    stage.keep("e1", amount=amount)
    told = stage.worker().step()
    assert told is not None and told.outcome == "parked"
    assert stage.effects() == 0 and stage.inbox.counts().parked == 1
    assert stage.worker().step() is None


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), float("-inf")])
def test_a_rule_that_makes_infinity_has_no_effect(stage: Stage, amount: float) -> None:
    class Endless:
        def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
            return Effect(kind="credit", account="a", amount_minor=amount, currency="EUR")  # type: ignore[arg-type]

    stage.keep("e1")
    told = stage.worker(Endless()).step()
    assert told is not None and told.outcome == "parked" and stage.effects() == 0
    with pytest.raises(ValueError, match="amount"):
        stage.keep("e2")
        event = stage.inbox.claim(lease_ms=1_000)
        assert event is not None
        stage.inbox.settle(event, Endless().decide("e2", {}), reason="x")


@pytest.mark.parametrize("effect", [5, {"amount_minor": 5}, "credit", Effect(kind="", account="a", amount_minor=1, currency="EUR"),
                                    Effect(kind="c", account="a\n", amount_minor=1, currency="EUR"),
                                    Effect(kind="c", account="a", amount_minor=1, currency="eur")])  # fmt: skip
def test_a_rule_that_gives_no_effect_of_ours_is_told(stage: Stage, effect: Any) -> None:
    class Other:
        def decide(self, event_id: str, document: Mapping[str, Any]) -> Any:
            return effect

    stage.keep("e1")
    told = stage.worker(Other()).step()
    assert told is not None and told.outcome == "parked" and stage.effects() == 0


def test_a_rule_that_fails_is_asked_again_later_and_then_never(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    class Fails:
        asked = 0

        def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
            Fails.asked += 1
            raise KeyError(f"what the event said: {document}")

    stage.keep("e1", secret_thing="abc")
    worker = stage.worker(Fails())
    outcomes = []
    for _ in range(6):
        told = worker.step()
        outcomes.append(told and told.outcome)
        if told:
            assert worker.step() is None  # not before its time
        stage.clock.advance(60)
    assert outcomes == ["retried", "retried", "parked", None, None, None]
    assert Fails.asked == 3 and "secret_thing" not in caplog.text


@pytest.mark.parametrize(
    "error", [OSError("audit is away"), sqlite3.IntegrityError("UNIQUE: secret_thing"), KeyError("secret_thing")]
)
def test_an_effect_whose_own_writes_fail_leaves_nothing_behind(
    stage: Stage, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    failing = [True]

    def apply(connection: Any, effect: Effect, event: Event) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS ledger (event_id TEXT, amount INTEGER)")
        connection.execute("INSERT INTO ledger VALUES (?, ?)", (event.event_id, effect.amount_minor))
        if failing.pop() if failing else False:
            raise error

    stage.keep("e1")
    worker = stage.worker(apply=apply)
    first = worker.step()
    assert first is not None and first.outcome == "retried" and stage.effects() == 0
    stage.clock.advance(61)
    second = worker.step()
    assert second is not None and second.outcome == "effect"
    assert stage.backend.connect().execute("SELECT event_id, amount FROM ledger").fetchall() == [("e1", 5)]
    assert type(error).__name__ in caplog.text and "secret_thing" not in caplog.text


def test_a_claim_that_another_took_over_writes_nothing(stage: Stage) -> None:
    stage.keep("e1")

    class Slow:
        def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
            stage.clock.advance(11)  # longer than the lease; another worker comes along
            other = Worker(Inbox(stage.backend), Credit(), LIMITS).step()
            assert other is not None and other.outcome == "effect"
            return Effect(kind="credit", account="a", amount_minor=500, currency="EUR")

    told = stage.worker(Slow()).step()
    assert told is not None and told.outcome == "lost"
    effect = stage.inbox.effect_of("acme", "e1")
    assert effect is not None and effect.amount_minor == 5


def test_a_worker_that_dies_over_and_over_leaves_the_event_to_a_person(stage: Stage) -> None:
    stage.keep("e1")
    for _ in range(3):
        assert stage.inbox.claim(lease_ms=1_000) is not None  # and no word any more
        stage.clock.advance(2)
    told = stage.worker().step()
    assert told is not None and told.outcome == "parked" and stage.effects() == 0


NOTE = {"headline": "An invoice was paid", "risk": "low"}


def noted(stage: Stage, model: Any, limits: WorkerLimits = LIMITS) -> str:
    stage.keep("e1")
    told = stage.worker(model=model, limits=limits).step()
    assert told is not None and told.outcome == "effect"
    assert stage.effects() == 1 and stage.inbox.counts().done == 1
    return told.note


def test_a_note_is_kept_when_it_is_one(stage: Stage) -> None:
    seen: list[str] = []

    def model(copy: str) -> object:
        seen.append(copy)
        return NOTE

    assert noted(stage, model) == "kept" and stage.inbox.counts().notes == 1
    assert [json.loads(copy) for copy in seen] == [{"/type": "invoice.paid"}]


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({**NOTE, "action": "grant 500"}, "other-fields"),
        ("no json", "not-json"),
        (None, "other-fields"),
        ({**NOTE, "headline": ""}, "no-headline"),
    ],
)
def test_what_is_no_note_is_dropped_and_nothing_else_changes(stage: Stage, said: object, word: str) -> None:
    assert noted(stage, lambda copy: said) == word and stage.inbox.counts().notes == 0


@pytest.mark.parametrize("error", [RuntimeError, TimeoutError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_model_that_raises_is_dropped(stage: Stage, error: type[BaseException]) -> None:
    def model(copy: str) -> object:
        raise error

    assert noted(stage, model) == "failed" and stage.inbox.counts().notes == 0


def test_a_model_that_hangs_is_dropped_in_time_and_holds_threads_and_no_worker(stage: Stage) -> None:
    held = threading.Event()
    short = WorkerLimits(lease_s=10, max_attempts=3, retry_after_s=1, note_within_s=0.02, note_fields=("/type",))
    asked = []

    def model(copy: str) -> object:
        asked.append(1)
        held.wait()
        return NOTE

    for number in range(7):
        stage.keep(f"e{number}")
    worker = stage.worker(model=model, limits=short)
    told = [worker.step() for _ in range(7)]
    assert [one and one.note for one in told] == ["too-late"] * 4 + ["too-many-hang"] * 3
    assert len(asked) == 4 and stage.effects() == 7
    held.set()
    assert stage.inbox.counts().notes == 0  # what comes late is not kept


def test_a_note_that_cannot_be_stored_takes_nothing_back(stage: Stage) -> None:
    class NoNotes(Inbox):
        def note(self, event: Event, noted: Noted) -> bool:
            raise Unkept("inbox", found="nothing", wanted="an answer", remedy="wait")

    stage.keep("e1")
    told = Worker(NoNotes(stage.backend), Credit(), LIMITS, model=lambda copy: NOTE).step()
    assert told is not None and (told.outcome, told.note) == ("effect", "not-stored")
    assert stage.effects() == 1


def test_without_pinned_fields_no_model_is_asked(stage: Stage) -> None:
    bare = WorkerLimits(lease_s=10, max_attempts=3, retry_after_s=1, note_within_s=1)
    assert noted(stage, lambda copy: pytest.fail("asked"), bare) == ""


def test_a_body_that_is_no_json_waits_for_a_person(stage: Stage) -> None:
    stage.inbox.keep(Arrival(source="acme", event_id="e1", digest="d", body=b"\xff"))
    told = stage.worker().step()
    assert told is not None and told.outcome == "parked"


class Changing:
    def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
        document["type"] = "what the rule looked up"  # type: ignore[index]  # a rule that does what it may not
        return None


def test_a_model_sees_of_an_event_what_came_and_not_what_a_rule_put_there(stage: Stage) -> None:
    seen: list[str] = []
    stage.keep("e1")
    stage.worker(Changing(), model=seen.append).step()
    assert seen == ['{"/type":"invoice.paid"}']


class Leaving:
    def decide(self, event_id: str, document: Mapping[str, Any]) -> Effect | None:
        raise SystemExit(3)


def test_an_event_whose_rule_ends_the_process_ends_no_worker(stage: Stage) -> None:
    """Started again, it would be claimed again, and nothing behind it would ever be worked on."""
    stage.keep("e1")
    told = stage.worker(Leaving()).step()
    assert told is not None and told.outcome == "retried"
    assert stage.inbox.counts().waiting == 1


def test_who_listens_to_a_worker_does_not_end_it(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def heard(worked: Any) -> None:
        raise ValueError("evt payload")

    stage.keep("e1")
    worker = stage.worker(on_worked=heard)
    told = worker.step()
    assert told is not None and told.outcome == "effect" and worker.counts["listener-failed"] == 1
    assert "payload" not in caplog.text and worker.step() is None


def test_an_effect_whose_own_writes_end_the_process_is_tried_again(stage: Stage) -> None:
    def leaves(connection: Any, effect: Effect, event: Event) -> None:
        raise SystemExit(3)

    stage.keep("e1")
    told = stage.worker(apply=leaves).step()
    assert told is not None and told.outcome == "retried" and stage.effects() == 0
