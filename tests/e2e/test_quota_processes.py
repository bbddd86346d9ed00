"""Several processes share one quota: in no window of their time is there more than the cap, and at once no more than the burst."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.stores.opening import open_store
from tests.e2e.storelab import servers

pytestmark = [pytest.mark.e2e, pytest.mark.needs("postgres"), pytest.mark.needs("redis-server")]

WORKER = Path(__file__).parent / "agents" / "quota_worker.py"


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        where = f"sqlite:{tmp_path / 'quota.db'}"
        open_store(where).prepare()
        yield where
    else:
        with servers(request.param) as server:
            yield server.url


def ask_in_processes(url: str, n: int, *, for_s: float, window_ms: int, cap: int, burst: int) -> list[tuple[int, int]]:
    command = [sys.executable, str(WORKER), url, *map(str, (for_s, window_ms, cap, burst))]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(n)]
    told = [json.loads(one.communicate(timeout=60)[0]) for one in workers]
    assert all(set(one["reasons"]) <= {"within-quota", "over-cap", "over-burst"} for one in told), told
    return sorted((began, ended) for one in told for began, ended in one["granted"])


def most_within(granted: list[tuple[int, int]], window_ns: int) -> int:
    """The most grants that lie, from question to answer, within one window."""
    return max(sum(1 for b, e in granted if b >= began and e < began + window_ns) for began, _ in granted)


def test_no_window_holds_more_than_the_cap_across_processes(url: str) -> None:
    granted = ask_in_processes(url, 4, for_s=2.5, window_ms=600, cap=30, burst=5)
    assert len(granted) >= 60  # it was used to the full, again and again
    assert most_within(granted, 600_000_000) <= 30
    # At the steady rate of one each 20 ms, 10 ms hold the burst and one more at most.
    assert most_within(granted, 10_000_000) <= 6


def test_thirty_a_minute_with_a_burst_of_five_is_five_at_once(url: str) -> None:
    granted = ask_in_processes(url, 4, for_s=1, window_ms=60_000, cap=30, burst=5)
    assert 5 <= len(granted) <= 6


def test_a_cap_is_granted_whole_and_not_once_more(url: str) -> None:
    assert len(ask_in_processes(url, 4, for_s=1, window_ms=60_000, cap=30, burst=30)) == 30
