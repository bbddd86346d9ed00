"""Several processes ask at random about one lease, some are killed; the store's log is played again and tells the same."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from drillmaster.rules.lease import Held, LeaseAsk, lease
from drillmaster.stores.leases import LogRow, read_log
from tests.e2e.leaselab import store_url

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

TTL_MS = 40
ASKS = """\
import random, sys, time
from drillmaster.guards.lease import Lease, LeaseRequest
from drillmaster.stores import decide
from drillmaster.stores.opening import open_store

url, who, item, life = sys.argv[1:5]
chance = random.Random(f"{who} {life}")
guard = Lease(lease="asked", ttl_ms=40, may_steal=("w1", "w2"))
store = open_store(url, within_s=20)
holder, token, n, known = "", "", 0, "1"
while True:
    action = chance.choice(("acquire", "acquire", "renew", "renew", "release", "steal"))
    if action in ("acquire", "steal") and chance.random() < 0.8:
        n += 1
        holder = f"{who}-{life}-{n}"
    given = None if action == "acquire" else known if action == "steal" else token or "1"
    request = LeaseRequest(
        action=action, source="lock-client", holder=holder or who, by=who, fencing_token=given, item=item
    )
    told = decide(guard, request, store)
    assert told.reason != "store-unavailable"
    if told.allowed and told.fencing_token:
        token = known = told.fencing_token
        print(told.fencing_token, flush=True)
    time.sleep(chance.choice((0, 0, 0.002, 0.02, 0.05)))
"""


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
        pytest.param("redis", marks=pytest.mark.needs("redis-server")),
    ],
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with store_url(request.param, tmp_path_factory.mktemp("processes")) as lent:
        yield lent


def again(rows: list[LogRow]) -> None:
    """Ask the law what the store was asked, at the times that it was, and be told the same."""
    held: Held | None = None
    for n, row in enumerate(rows):
        asked = LeaseAsk(
            action=row.action,
            holder=row.holder,
            by=row.by,
            token=int(row.asked) if row.asked else None,
            ttl_us=TTL_MS * 1_000,
            permitted=row.action != "steal" or row.by in ("w1", "w2"),
        )
        then = lease(held, asked, row.at_us)
        told = then.told
        assert (told.allowed, told.reason, str(told.token or "")) == (row.allowed, row.reason, row.token), (n, row)
        held = then.state


def log(url: str) -> list[LogRow]:
    return read_log(url, key="5:asked3:one", last=100_000)


def test_what_many_processes_were_told_is_what_the_law_tells_one_after_the_other(url: str) -> None:
    def start(n: int, life: int = 0) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", ASKS, url, f"w{n}", "one", str(life)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    running = [start(n % 4) for n in range(4)]
    killed = []
    chance = random.Random(7)
    wanted = {"granted", "renewed", "released", "held", "expired", "stale-token", "stolen", "steal-not-permitted"}
    ends = time.monotonic() + 60
    while len(killed) < 5 or (not wanted <= {row.reason for row in log(url)} and time.monotonic() < ends):
        time.sleep(0.5 + chance.random() / 2)
        n = chance.randrange(4)
        running[n].send_signal(signal.SIGKILL)
        killed.append(running[n])
        running[n] = start(n, len(killed))
    for one in running:
        one.send_signal(signal.SIGKILL)
    told = [int(token) for one in (*killed, *running) for token in one.communicate(timeout=30)[0].split()]
    assert {one.returncode for one in (*killed, *running)} == {-signal.SIGKILL}, "none of them failed before"
    rows = log(url)
    again(rows)
    assert wanted <= {row.reason for row in rows}
    given = [int(row.token) for row in rows if row.token]
    assert given == sorted(given) and set(told) <= set(given)
