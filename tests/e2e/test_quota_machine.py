"""A quota beside a model of it, in whatever order: lost answers, servers that are killed or stopped, limits that change."""

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import Store, decide
from drillmaster.stores.opening import open_store
from tests.e2e.storelab import servers, wire

pytestmark = [pytest.mark.e2e, pytest.mark.needs("postgres"), pytest.mark.needs("redis-server")]

WINDOW_MS = 86_400_000  # nothing leaves it while a test lasts
WORKERS = st.integers(0, 3)


class Machine(RuleBasedStateMachine):
    """Each run has a bucket of its own. `told` is what workers were granted; what was lost on the way they do not know."""

    url = ""
    lab: Any = None
    between: Any = None
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1
        self.name = f"p{type(self).runs}"
        self.told = 0
        self.lost = 0
        self.cap = self.highest = 12
        self.stores: dict[int, Store] = {}

    @initialize(cap=st.integers(3, 12))
    def limits(self, cap: int) -> None:
        self.cap = self.highest = cap

    def _ask(self, worker: int, cost: int = 1) -> str:
        if worker not in self.stores:
            self.stores[worker] = open_store(self.url, within_s=2)
        guard = Quota(partner=self.name, identity="prod", window_ms=WINDOW_MS, max_per_window=self.cap, burst=self.cap)
        decision = decide(guard, OutboundCall(partner=self.name, identity="prod", requests=cost), self.stores[worker])
        if decision.allowed:
            self.told += cost
            assert self.told <= self.cap, "more was granted than the cap that was asked about"
            assert decision.left is not None and decision.left <= self.cap - self.told
        return decision.reason

    @rule(worker=WORKERS, cost=st.integers(1, 3))
    def ask(self, worker: int, cost: int) -> None:
        before = self.told
        reason = self._ask(worker, cost)
        if reason == "over-cap":
            # What a worker was not told may have been carried out; nothing else may deny.
            assert before + self.lost + cost > self.cap
        else:
            assert reason in ("within-quota", "never", "over-burst")

    @rule(cap=st.integers(3, 12))
    def change_the_cap(self, cap: int) -> None:
        self.cap = cap
        self.highest = max(self.highest, cap)

    @rule(worker=WORKERS)
    def another_process(self, worker: int) -> None:
        """A worker that ended: its connection is gone."""
        store = self.stores.pop(worker, None)
        if store is not None:
            store.close()

    @rule(worker=WORKERS)
    def lose_an_answer(self, worker: int) -> None:
        if self.between is not None:
            self.between.lose = 1
            self.lost += 2
            self._ask(worker)
            self.between.lose = 0

    @rule(worker=WORKERS)
    def kill_the_server(self, worker: int) -> None:
        if self.lab is not None:
            self.lab.kill()
            assert self._ask(worker) == "store-unavailable"
            self.lab.start()

    @rule(worker=WORKERS)
    def stop_the_server(self, worker: int) -> None:
        if self.lab is not None:
            store = open_store(self.url, within_s=0.1)
            with self.lab.stopped():
                guard = Quota(partner=self.name, identity="prod", window_ms=WINDOW_MS, max_per_window=12, burst=12)
                told = decide(guard, OutboundCall(partner=self.name, identity="prod"), store)
                assert told.reason == "store-unavailable"
            self.lost += 1
            store.close()

    @invariant()
    def never_more_than_the_highest_cap(self) -> None:
        assert self.told <= self.highest

    def teardown(self) -> None:
        for store in self.stores.values():
            store.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 12), ("postgresql", 4), ("redis", 12)])
def test_whatever_happens_no_more_is_granted_than_the_cap(kind: str, examples: int) -> None:
    with contextlib.ExitStack() as stack:
        if kind == "sqlite":
            folder = tempfile.mkdtemp(prefix="dm-quota-")
            stack.callback(shutil.rmtree, folder, True)
            Machine.url, Machine.lab, Machine.between = f"sqlite:{Path(folder) / 'quota.db'}", None, None
            open_store(Machine.url).prepare()
        else:
            Machine.lab = stack.enter_context(servers(kind))
            Machine.between = stack.enter_context(wire(Machine.lab))
            Machine.url = Machine.lab.url_over(Machine.between)
        health = [HealthCheck.too_slow, HealthCheck.filter_too_much]
        run_state_machine_as_test(  # type: ignore[no-untyped-call]  # the library's
            Machine,
            settings=settings(
                max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=health
            ),
        )
