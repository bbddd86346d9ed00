"""A worker that forks while another of its threads decides: the child waits for nobody who is not there."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.adapters.worker.retry import Ledger
from drillmaster.adapters.worker.retry_counting import Earned
from drillmaster.guards import Ask, Decision
from drillmaster.rules import later
from drillmaster.stores.one_process import OneProcess
from tests.adapters.worker.test_quota import FILE
from tests.e2e.retrylab import LIMITS

pytestmark = pytest.mark.e2e


def guarding(folder: Path) -> Guarding:
    path = folder / "guards.yaml"
    path.write_text(FILE)
    return Guarding(path)


def asks(store: OneProcess) -> Any:
    asked = Ask("queue", later.Word(what="claim", span_us=1))
    return store.ask(later.LAW, asked.key, asked.question)


OWNERS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any]]] = {
    "ledger": (lambda folder: Ledger(), lambda one: one.decided(Decision(allowed=False, reason="deadline"))),
    "good calls": (lambda folder: Earned(LIMITS), lambda one: one.take(least=1)),
    "one process": (lambda folder: OneProcess(), asks),
    "guards of a file": (guarding, lambda one: one.forget("ledger", session="s")),
}


@pytest.mark.parametrize("name", OWNERS)
def test_a_child_waits_for_no_lock_that_a_thread_of_its_parent_held(name: str, tmp_path: Path) -> None:
    make, use = OWNERS[name]
    owner = make(tmp_path)
    holds, done = threading.Event(), threading.Event()

    def hold() -> None:
        with owner._lock:
            holds.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert holds.wait(10)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            try:
                use(owner)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        done.set()
        thread.join()
    use(owner)
