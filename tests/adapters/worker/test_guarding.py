import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.adapters.worker import guarding as module
from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.guards import Decision
from drillmaster.guards.quota import OutboundCall
from drillmaster.guards.retry import FailedCall
from drillmaster.stores import Unavailable
from tests.intake.test_guards_files import GOOD, NOW_NS, QUOTA, RETRY

CALL = OutboundCall(partner="ledger", identity="acct-7")
FAILED = FailedCall(source="pinned-map", protocol="http", method="GET", code=503, attempt=1, elapsed_ms=5)


class Kept:
    """A store in a dict, of the store's protocol, on a clock of its own."""

    place = "memory"

    def __init__(self) -> None:
        self.states: dict[tuple[str, str], Any] = {}
        self.down = False

    def ask(self, law: Any, key: str, question: Any) -> Any:
        if self.down:
            raise Unavailable("memory", found="nothing", wanted="an answer", remedy="wait")
        then = law.step(self.states.get((law.name, key)), question, NOW_NS // 1_000)
        self.states[law.name, key] = then.state
        return then.told

    def prepare(self) -> None: ...

    def close(self) -> None: ...


class KeptAsync:
    place = "memory"

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    async def ask(self, law: Any, key: str, question: Any) -> Any:
        return self._kept.ask(law, key, question)

    async def close(self) -> None: ...


def write(path: Path, *guards: dict[str, Any], **change: Any) -> Path:
    path.write_bytes(msgspec.json.encode({**GOOD, "guards": list(guards), **change}))
    return path


def opened(path: Path, store: Kept | None = None) -> Guarding:
    clock = ManualClock(wall_ns=NOW_NS)
    return Guarding(
        path,
        store=store,
        async_store=None if store is None else KeptAsync(store),
        recorder=Recorder(),
        clock=clock,
    )


def test_a_guard_with_a_law_asks_the_store_in_both_kinds_of_worker(tmp_path: Path) -> None:
    guards = opened(write(tmp_path / "g.json", QUOTA, RETRY), Kept())
    assert [guards.decide("quota", CALL).allowed for _ in range(3)] == [True] * 3
    more = [asyncio.run(guards.decide_async("quota", CALL)) for _ in range(3)]
    assert [(one.allowed, one.reason) for one in more] == [
        (True, "within-quota"),
        (True, "within-quota"),
        (False, "over-burst"),
    ]
    assert guards.recorder.counts() == {
        ("quota", "quota", "within-quota", True): 5,
        ("quota", "quota", "over-burst", False): 1,
    }


def test_without_an_answer_of_the_store_it_denies(tmp_path: Path) -> None:
    store = Kept()
    store.down = True
    for guards in (opened(write(tmp_path / "g.json", QUOTA)), opened(write(tmp_path / "g.json", QUOTA), store)):
        assert guards.decide("quota", CALL) == Decision(allowed=False, reason="store-unavailable")
        assert asyncio.run(guards.decide_async("quota", CALL)) == Decision(allowed=False, reason="store-unavailable")
        assert guards.recorder.counts() == {("quota", "quota", "store-unavailable", False): 2}


@pytest.mark.parametrize("facts", [None, {}, {"partner": "ledger"}, FAILED, "within-quota", OutboundCall, 7])
def test_facts_of_another_type_are_denied_and_raise_nothing(facts: Any, tmp_path: Path) -> None:
    guards = opened(write(tmp_path / "g.json", QUOTA), Kept())
    assert guards.decide("quota", facts).reason == "facts-unusable"
    assert guards.decide("quota", facts).allowed is False


@pytest.mark.parametrize("name", ["retry", "", "qouta", "a prompt of many words", None, 7])
def test_a_guard_that_is_not_in_the_file_is_denied_and_its_name_is_not_kept(name: Any, tmp_path: Path) -> None:
    guards = opened(write(tmp_path / "g.json", QUOTA), Kept())
    assert guards.decide(name, CALL) == Decision(allowed=False, reason="unlisted-guard")
    assert list(guards.recorder.counts()) == [("unlisted", "unlisted", "unlisted-guard", False)]


TOOLS = {
    "guard": "tools", "privileges": ["fs.read"], "granted": ["fs.read"], "wire": "not compared", "max_compared_ms": 0,
    "max_arguments_bytes": 100, "max_calls": 1,
}  # fmt: skip  # a row


def tool_call() -> Any:
    from drillmaster.guards.tools import ToolUse

    return ToolUse(
        asks="call", list_sha256="sha256:" + "0" * 64, listed=True, privileges=("fs.read",), arguments_read=True
    )


def test_a_guard_without_a_law_counts_for_each_session_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guards = opened(write(tmp_path / "g.json", TOOLS))
    said = [guards.decide("tools", tool_call(), session=one).reason for one in ("a", "a", "b")]
    assert said == ["contract-holds", "calls-exhausted", "contract-holds"]
    guards.forget("tools", session="a")
    assert guards.decide("tools", tool_call(), session="a").reason == "contract-holds"
    monkeypatch.setattr(module, "MOST_SESSIONS", 2)
    assert guards.decide("tools", tool_call(), session="c").reason == "sessions-exhausted"
    assert guards.decide("tools", tool_call(), session="a").reason == "calls-exhausted"  # nobody was forgotten for it


def test_what_a_good_call_earns_is_given_back_to_the_shared_budget(tmp_path: Path) -> None:
    guards = opened(write(tmp_path / "g.json", {**RETRY, "budget_tokens": 2, "refund": 0.5}, QUOTA), Kept())
    assert [guards.decide("retry", FAILED).reason for _ in range(3)] == [
        "pinned-status",
        "pinned-status",
        "retry-budget",
    ]
    assert guards.succeeded("retry")
    assert guards.decide("retry", FAILED).reason == "retry-budget"  # half a token
    assert asyncio.run(guards.succeeded_async("retry"))
    assert guards.decide("retry", FAILED).reason == "pinned-status"
    assert not guards.succeeded("quota")  # it has no such budget
    assert not guards.succeeded("nope")
    assert not guards.succeeded("retry", calls=0)
    assert not guards.succeeded("retry", mark="a b")
    assert guards.decide("retry", FAILED).reason == "retry-budget"
    assert guards.succeeded("retry", mark="one") and asyncio.run(guards.succeeded_async("retry", mark="one"))
    assert guards.decide("retry", FAILED).reason == "retry-budget"  # the same half of a token, told twice


def test_a_file_that_cannot_be_used_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    path = write(tmp_path / "g.json", QUOTA)
    guards = opened(path, Kept())
    before = guards.guards
    for wrong in ({"owner": ""}, {"review_by": "2026-11-28"}, {"model": "gpt"}):
        write(path, QUOTA, **wrong)
        with pytest.raises(Problem):
            guards.reload()
        assert guards.guards is before
    path.unlink()
    with pytest.raises(Problem):
        guards.reload()
    assert guards.decide("quota", CALL).allowed
    write(path, {**QUOTA, "name": "ledger", "burst": 1, "max_per_window": 1})
    guards.reload()
    assert guards.decide("quota", CALL).reason == "unlisted-guard"
    assert guards.decide("ledger", CALL).reason == "over-cap"  # what was granted before counts under the lower cap


def test_a_file_that_needs_a_store_now_is_not_taken_where_there_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "g.json", TOOLS)
    guards = opened(path)
    write(path, QUOTA)
    with pytest.raises(Problem, match="no store, and quota"):
        guards.reload()
    assert list(guards.guards.entries) == ["tools"]


def test_a_day_for_review_that_passes_meanwhile_stops_nobody_and_lets_nobody_begin(tmp_path: Path) -> None:
    path = write(tmp_path / "g.json", QUOTA, review_by="2026-11-29")
    clock = ManualClock(wall_ns=NOW_NS)
    guards = Guarding(path, store=Kept(), recorder=Recorder(), clock=clock)
    clock.advance(86_400)
    assert guards.decide("quota", CALL).allowed
    with pytest.raises(Problem, match="has passed"):
        guards.reload()
    with pytest.raises(Problem, match="has passed"):
        Guarding(path, clock=clock)
