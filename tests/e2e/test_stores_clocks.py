"""A server whose wall clock is set while it runs: nothing is granted twice by a clock that goes back, and no token is lower."""

import contextlib
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from drillmaster.guards import Decision
from drillmaster.guards.lease import Lease, LeaseDecision, LeaseRequest
from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import Store, decide
from drillmaster.stores.opening import open_store
from tests.e2e.pglab import postgres_server
from tests.e2e.redislab import redis_server

SOURCE = Path(__file__).with_name("clockshift.c")
pytestmark = [pytest.mark.e2e, pytest.mark.needs("cc"), pytest.mark.timeout(120)]

QUOTA = Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=5, burst=5)
LEASE = Lease(lease="nightly-export", ttl_ms=60_000, may_steal=())
HOUR_S = 3_600
YEARS_S = 3_000 * 86_400


@contextlib.contextmanager
def clock(folder: Path) -> Iterator[Callable[[int], None]]:
    """What is started in here has a wall clock that may be set to so many seconds off the true one."""
    library, said = folder / "clockshift.so", folder / "off"
    said.write_bytes(struct.pack("=q", 0))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True, timeout=60)
    for path in (library, said):
        path.chmod(0o644)
    env = {"LD_PRELOAD": str(library), "CLOCKSHIFT": str(said)}
    was = {name: os.environ.get(name) for name in env}
    os.environ.update(env)

    def put(off_s: int) -> None:
        with said.open("r+b") as file:
            file.write(struct.pack("=q", off_s))

    try:
        yield put
    finally:
        for name, value in was.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(postgres_server, marks=pytest.mark.needs("postgres"), id="postgresql"),
        pytest.param(redis_server, marks=pytest.mark.needs("redis-server"), id="redis"),
    ],
)
def lent(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Callable[[int], None]]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dm-clock-")))
        folder.chmod(0o755)  # the server runs as somebody else
        with clock(folder) as put:
            server = stack.enter_context(request.param())
        store = open_store(server.url, within_s=5)
        store.prepare()
        yield store, put
        store.close()


@pytest.mark.needs("redis-server")
def test_the_clock_that_is_set_is_the_one_the_server_tells(tmp_path: Path) -> None:
    with clock(tmp_path) as put, redis_server() as server:
        client = redis.Redis(unix_socket_path=str(server.socket))
        for off_s in (0, -HOUR_S, YEARS_S):
            put(off_s)
            assert abs(client.time()[0] - time.time() - off_s) < 5
        client.close()


def call(store: Store) -> Decision:
    return decide(QUOTA, OutboundCall(partner="acme", identity="prod"), store)


def ask(store: Store, action: str, holder: str, token: str | None = None) -> LeaseDecision:
    asked = LeaseRequest(action=action, source="lock-client", holder=holder, by=holder, fencing_token=token)
    told = decide(LEASE, asked, store)
    assert isinstance(told, LeaseDecision)
    return told


def test_a_clock_that_goes_back_gives_no_window_a_second_time(lent: tuple[Store, Callable[[int], None]]) -> None:
    store, put = lent
    assert [call(store).reason for _ in range(5)] == ["within-quota"] * 5
    for off_s in (0, -1, -HOUR_S, -YEARS_S, 0):
        put(off_s)
        told = call(store)
        assert (told.reason, told.left) == ("over-cap", 0), off_s
    put(HOUR_S)  # an hour has passed, by the only clock that counts
    assert [call(store).reason for _ in range(6)] == ["within-quota"] * 5 + ["over-cap"]
    for off_s in (0, -YEARS_S, HOUR_S):
        put(off_s)
        assert call(store).reason == "over-cap", off_s
    put(0)


def test_a_clock_that_is_set_ends_no_lease_early_and_takes_no_token_back(
    lent: tuple[Store, Callable[[int], None]],
) -> None:
    store, put = lent
    first = ask(store, "acquire", "h1")
    assert first.reason == "granted" and first.fencing_token
    for off_s in (-1, -HOUR_S, -YEARS_S, 0):
        put(off_s)
        assert ask(store, "acquire", "h2").reason == "held", off_s
        assert ask(store, "renew", "h1", first.fencing_token).reason == "renewed", off_s
    put(HOUR_S)
    assert ask(store, "renew", "h1", first.fencing_token).reason == "expired"
    second = ask(store, "acquire", "h2")
    assert second.reason == "granted" and int(second.fencing_token or 0) > int(first.fencing_token)
    for off_s in (0, -YEARS_S):
        put(off_s)
        assert ask(store, "renew", "h1", first.fencing_token).reason == "stale-token", off_s
        assert ask(store, "acquire", "h3").reason == "held", off_s
    assert ask(store, "release", "h2", second.fencing_token).reason == "released"
    third = ask(store, "acquire", "h3")
    assert third.reason == "granted" and int(third.fencing_token or 0) > int(second.fencing_token or 0)
    put(0)
