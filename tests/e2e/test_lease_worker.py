"""Workers that hold a lease on real stores: renewed, lost, killed, cut off, forked, many at once."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.adapters.worker.lease import LeaseLost, LeaseNotGranted, hold, hold_async
from drillmaster.guards.lease import Lease
from drillmaster.rules import AnyLaw
from drillmaster.stores.leases import LogRow, read_leases, read_log
from drillmaster.stores.one_process import OneProcess
from drillmaster.stores.opening import open_async_store, open_store
from tests.e2e.leaselab import Cutter, store_url
from tests.e2e.redislab import redis_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

GUARD = Lease(lease="nightly-export", ttl_ms=1_500, may_steal=())
"""Long enough for a machine on which much else runs."""
SERVERS = [
    pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
]


@pytest.fixture(params=["sqlite", *SERVERS], scope="module")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with store_url(request.param, tmp_path_factory.mktemp("leases")) as lent:
        yield lent


def rows(url: str, item: str) -> list[LogRow]:
    return read_log(url, key=GUARD.key(item), last=10_000)


def test_a_holder_renews_past_its_ttl_and_keeps_others_out_until_it_releases(url: str) -> None:
    with contextlib.closing(open_store(url, within_s=5)) as store:
        with hold(GUARD, store, by="a", item="renews") as lease:
            first = lease.token
            ends = time.monotonic() + 4
            while time.monotonic() < ends:
                assert lease.held
                with pytest.raises(LeaseNotGranted) as refused, hold(GUARD, store, by="b", item="renews"):
                    pass
                assert refused.value.reason == "held"
                time.sleep(0.2)
            lease.check()
        with hold(GUARD, store, by="b", item="renews") as lease:
            assert int(lease.token) > int(first)
    told = rows(url, "renews")
    assert {row.reason for row in told} == {"granted", "held", "renewed", "released"}
    assert all(row.token == "" for row in told if not row.allowed)
    (row,) = [one for one in read_leases(url) if one.item == "renews"]
    assert (row.lease, row.by, row.state) == ("nightly-export", "b", "released")


def test_who_waits_is_granted_it_once_it_is_released(url: str) -> None:
    with contextlib.closing(open_store(url, within_s=5)) as store, hold(GUARD, store, by="a", item="waits") as lease:
        with pytest.raises(LeaseNotGranted), hold(GUARD, store, by="b", item="waits", wait_s=0.4):
            pass
        assert lease.release()
        assert not lease.held and not lease.release()
        with hold(GUARD, store, by="b", item="waits", wait_s=10) as other:
            assert other.held


def test_a_lease_that_was_stolen_is_lost_and_says_so_once(url: str) -> None:
    thieves = Lease(lease="nightly-export", ttl_ms=1_500, may_steal=("operator",))
    lost: list[str] = []
    from drillmaster.guards.lease import LeaseRequest
    from drillmaster.stores import decide

    with contextlib.closing(open_store(url, within_s=5)) as store:
        with hold(GUARD, store, by="a", item="stolen", on_lost=lost.append) as lease:
            request = LeaseRequest(
                action="steal",
                source="lock-client",
                holder="thief",
                by="operator",
                fencing_token=lease.token,
                item="stolen",
            )
            assert decide(GUARD, request, store).reason == "steal-not-permitted"
            assert lease.renew().allowed
            assert decide(thieves, request, store).reason == "stolen"
            assert decide(thieves, request, store).reason == "stolen"  # asked again: the same
            assert lease.wait_lost(5)
            assert not lease.held
            with pytest.raises(LeaseLost) as why:
                lease.check()
            assert why.value.reason == "stale-token"
        assert lost == ["stale-token"]
    tokens = {row.token for row in rows(url, "stolen") if row.reason == "stolen"}
    assert len(tokens) == 1
    assert "steal-not-permitted" in {row.reason for row in rows(url, "stolen")}


def test_an_event_loop_holds_it_alike(url: str) -> None:
    async def go() -> None:
        store = open_async_store(url, within_s=5)
        async with hold_async(GUARD, store, by="a", item="async") as lease:
            for _ in range(12):
                await asyncio.sleep(0.2)
                assert lease.held
                with pytest.raises(LeaseNotGranted):
                    async with hold_async(GUARD, store, by="b", item="async"):
                        pass
            assert await lease.release()
            assert not lease.held
            async with hold_async(GUARD, store, by="b", item="async", wait_s=5) as other:
                assert int(other.token) > int(lease.token)
        await store.close()

    asyncio.run(go())


def test_an_event_loop_is_told_that_it_lost(url: str) -> None:
    from drillmaster.guards.lease import LeaseRequest
    from drillmaster.stores import decide_async

    thieves = Lease(lease="nightly-export", ttl_ms=1_500, may_steal=("operator",))
    lost: list[str] = []

    async def go() -> None:
        store = open_async_store(url, within_s=5)
        async with hold_async(GUARD, store, by="a", item="async-lost", on_lost=lost.append) as lease:
            request = LeaseRequest(
                action="steal",
                source="lock-client",
                holder="thief",
                by="operator",
                fencing_token=lease.token,
                item="async-lost",
            )
            assert (await decide_async(thieves, request, store)).reason == "stolen"
            assert await asyncio.wait_for(lease.wait_lost(), 5) == "stale-token"
            assert not lease.held and not (await lease.renew()).allowed
            with pytest.raises(LeaseLost, match="not the latest"):
                lease.check()
        with pytest.raises(LeaseNotGranted):
            async with hold_async(GUARD, store, by="a", item="async-lost"):
                pass
        await store.close()

    asyncio.run(go())
    assert lost == ["stale-token"]


def test_a_loop_that_was_blocked_past_the_deadline_knows_it_at_once(url: str) -> None:
    async def go() -> None:
        store = open_async_store(url, within_s=5)
        guard = msgspec.structs.replace(GUARD, ttl_ms=600)
        async with hold_async(guard, store, by="a", item="blocked") as lease:
            assert lease.held
            time.sleep(0.7)  # whatever blocks the loop
            assert not lease.held
            with pytest.raises(LeaseLost, match="deadline has passed"):
                lease.check()
            assert not await lease.release()
        await store.close()

    asyncio.run(go())


def test_a_forked_child_holds_nothing_and_gives_nothing_back(url: str) -> None:
    begun_s = time.monotonic()
    with contextlib.closing(open_store(url, within_s=5)) as store, hold(GUARD, store, by="a", item="forked") as lease:
        child = os.fork()
        if child == 0:  # nothing of the test's may run on in it
            os._exit(0 if not lease.held and not lease.renew().allowed and not lease.release() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lease.held
        asked = [row.action for row in rows(url, "forked")]
        assert "renew" not in asked or time.monotonic() - begun_s > 0.5, "a child renewed what is its parent's"


HOLDER = """\
import sys, time
from drillmaster.adapters.worker.lease import hold
from drillmaster.guards.lease import Lease
from drillmaster.stores.opening import open_store
guard = Lease(lease="nightly-export", ttl_ms=300, may_steal=())
store = open_store(sys.argv[1], within_s=5)
with hold(guard, store, by="killed", item=sys.argv[2], wait_s=20) as lease:
    print(lease.token, flush=True)
    time.sleep(60)
"""


def test_a_holder_that_is_killed_keeps_others_out_for_one_ttl_and_no_longer(url: str) -> None:
    for n in range(5):
        item = f"killed-{n}"
        process = subprocess.Popen([sys.executable, "-c", HOLDER, url, item], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        token = process.stdout.readline()
        time.sleep(0.05 + n * 0.11)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with (
            contextlib.closing(open_store(url, within_s=5)) as store,
            hold(GUARD, store, by="b", item=item, wait_s=20) as lease,
        ):
            assert int(lease.token) > int(token)
        told = rows(url, item)
        last_us = max(row.at_us for row in told if row.by == "killed" and row.allowed)
        (granted_us,) = [row.at_us for row in told if row.by == "b" and row.reason == "granted"]
        assert granted_us >= last_us + 300_000


CONTENDER = """\
import sys, time
from pathlib import Path
from drillmaster.adapters.worker.lease import hold
from drillmaster.guards.lease import Lease
from drillmaster.stores.opening import open_store
guard = Lease(lease="nightly-export", ttl_ms=3000, may_steal=())
store, count = open_store(sys.argv[1], within_s=5), Path(sys.argv[2])
for _ in range(int(sys.argv[3])):
    with hold(guard, store, by="contender", item="contended", wait_s=60) as lease:
        found = int(count.read_text())
        time.sleep(0.001)
        count.write_text(str(found + 1))
        print(lease.token, flush=True)
"""


def test_of_many_processes_one_works_at_a_time(url: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")
    words = [sys.executable, "-c", CONTENDER, url, str(count), "15"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=120)[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert count.read_text() == "60"
    tokens = [int(token) for one in said for token in one]
    assert len(set(tokens)) == 60
    given = [int(row.token) for row in rows(url, "contended") if row.reason == "granted"]
    assert given == sorted(given) and set(given) == set(tokens)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("cuts", [1, 2, 3])
def test_an_answer_that_was_lost_is_given_again_and_makes_no_second_holder(
    kind: str, cuts: int, tmp_path: Path
) -> None:
    with store_url(kind, tmp_path) as url:
        if kind == "redis":
            cutter = Cutter(Path(url.removeprefix("unix://")), "cut.sock")
            through = f"unix://{cutter.folder / 'cut.sock'}"
        else:
            folder = Path(url.partition("host=")[2])
            cutter = Cutter(folder / ".s.PGSQL.5432", ".s.PGSQL.5432")
            through = url.replace(str(folder), str(cutter.folder))
        guard = Lease(lease="nightly-export", ttl_ms=10_000, may_steal=())
        with contextlib.closing(cutter), contextlib.closing(open_store(through, within_s=5)) as store:
            with hold(guard, store, by="a", item="warm"):  # a connection is kept from now on
                pass
            cutter.swallow = cuts
            with hold(guard, store, by="a", item="cut", wait_s=20) as lease:
                token = lease.token
                assert cutter.swallowed == cuts
                cutter.swallow = 1
                assert lease.renew().allowed
                cutter.swallow = 1
        granted = [row for row in rows(url, "cut") if row.action == "acquire"]
        assert {row.token for row in granted if row.allowed} == {token}
        assert {row.holder for row in granted} == {granted[0].holder}
        assert len([row for row in rows(url, "cut") if row.reason == "released"]) == 2
        (row,) = [one for one in read_leases(url) if one.item == "cut"]
        assert row.state == "released"


@pytest.mark.needs("redis-server")
def test_a_store_that_is_gone_loses_the_lease_at_its_deadline_and_not_later(tmp_path: Path) -> None:
    with redis_server() as server, contextlib.closing(open_store(server.url, within_s=0.2)) as store:
        store.prepare()
        with hold(Lease(lease="gone", ttl_ms=600, may_steal=()), store, by="a") as lease:
            server.kill()
            killed_s = time.monotonic()
            assert lease.held
            assert lease.wait_lost(5)
            assert time.monotonic() - killed_s <= 0.6 + 0.4  # a question that is on its way may take the store's limit
            with pytest.raises(LeaseLost, match="deadline has passed"):
                lease.check()
            server.start()
            with pytest.raises(LeaseLost):
                lease.check()


@pytest.mark.needs("redis-server")
def test_a_redis_that_came_back_empty_denies_until_it_is_prepared_and_then_gives_higher_tokens() -> None:
    with redis_server("--save", "", "--appendonly", "no") as server:
        guard = Lease(lease="empty", ttl_ms=60_000, may_steal=())
        with contextlib.closing(open_store(server.url, within_s=5)) as store:
            store.prepare()
            with hold(guard, store, by="a") as lease:
                token = lease.token
                server.kill()
                server.start()
                with pytest.raises(LeaseNotGranted) as refused, hold(guard, store, by="b"):
                    pass
                assert refused.value.reason == "store-unavailable"
                store.prepare()
                with hold(guard, store, by="b") as other:
                    assert int(other.token) > int(token)
                    assert lease.renew().reason == "stale-token"


SET_CLOCK = """\
import sys
import threading
from drillmaster.guards.lease import Lease, LeaseRequest
from drillmaster.stores import decide
from drillmaster.stores.opening import open_store
guard = Lease(lease="clock", ttl_ms=600_000, may_steal=())
store = open_store(sys.argv[1], within_s=5)
words = dict(zip(("action", "holder", "fencing_token"), sys.argv[2:]))
told = decide(guard, LeaseRequest(source="lock-client", by="w", **words), store)
print(told.reason, told.fencing_token or "-")
"""


@pytest.mark.needs("faketime")
def test_a_wall_clock_that_is_set_ends_no_lease_and_takes_no_token_back(tmp_path: Path) -> None:
    with store_url("sqlite", tmp_path) as url:

        def ask(offset: str, *words: str) -> list[str]:
            command = [*(("faketime", "-f", offset) if offset else ()), sys.executable, "-c", SET_CLOCK, url, *words]
            env = {**os.environ, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
            return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()

        reason, token = ask("", "acquire", "h1")
        assert reason == "granted"
        for offset in ("+1d", "-1d", "-3000d"):
            assert ask(offset, "acquire", "h2") == ["held", "-"]
            assert ask(offset, "renew", "h1", token) == ["renewed", token]
        assert ask("-3000d", "release", "h1", token) == ["released", "-"]
        reason, second = ask("-3000d", "acquire", "h2")
        assert reason == "granted" and int(second) > int(token)


def test_each_decision_is_written_down_and_counted_where_a_recorder_is_given(tmp_path: Path) -> None:
    from drillmaster.adapters.worker.recording import Recorder

    recorder = Recorder(log=tmp_path / "timeline.jsonl")
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(store_url("sqlite", tmp_path))
        store = stack.enter_context(contextlib.closing(open_store(url, within_s=5)))
        lease = stack.enter_context(hold(GUARD, store, by="a", recorder=recorder))
        lease.renew()
        with pytest.raises(LeaseNotGranted), hold(GUARD, store, by="b", recorder=recorder):
            pass
    counts = {reason: n for (_, _, reason, _), n in recorder.counts().items()}
    assert counts["granted"] == counts["held"] == counts["released"] == 1 and counts["renewed"] >= 1
    lines = (tmp_path / "timeline.jsonl").read_text()
    assert lines.count('"guard_decision"') == sum(counts.values())
    assert lease.token not in lines and lease.holder not in lines


@pytest.mark.needs("redis-server")
def test_a_replica_that_was_behind_gives_higher_tokens_than_the_one_before_it() -> None:
    import redis

    guard = Lease(lease="behind", ttl_ms=60_000, may_steal=())
    with (
        redis_server("--save", "", "--appendonly", "no") as server,
        contextlib.closing(open_store(server.url, within_s=5)) as store,
    ):
        store.prepare()
        with hold(guard, store, by="a"):
            pass
        with contextlib.closing(redis.Redis.from_url(server.url)) as client:
            client.save()  # what came over to the replica; the rest never did
        tokens = []
        for n in range(5):
            with hold(guard, store, by=f"b{n}") as lease:
                tokens.append(int(lease.token))
        server.kill()
        server.start()
        with hold(guard, store, by="c", wait_s=5) as lease:
            assert int(lease.token) > max(tokens)
        assert [row.by for row in read_log(server.url, key=guard.key(), last=100) if row.reason == "granted"] == [
            "a",
            "c",
        ]


def test_leases_that_are_given_back_at_once_leave_no_thread_and_no_memory(tmp_path: Path) -> None:
    from drillmaster.adapters.worker import lease as adapter

    with store_url("sqlite", tmp_path) as url, contextlib.closing(open_store(url, within_s=5)) as store:
        guard = Lease(lease="short", ttl_ms=60_000, may_steal=())
        before = threading.active_count()
        for _ in range(300):
            with hold(guard, store, by="a"):
                pass
        assert threading.active_count() <= before + 1
        assert len(adapter._watch()._due) < 200


@pytest.mark.timeout(30)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loss_that_is_told_to_somebody_slow_holds_up_no_end() -> None:
    goes_on, told = threading.Event(), threading.Event()

    def slow(reason: str) -> None:
        goes_on.wait(60)
        told.set()

    with hold(GUARD, Breaks(), by="a", on_lost=slow) as lease:
        assert lease.wait_lost(10)
    goes_on.set()  # comes after the block: who waited for it inside would have waited for ever
    assert told.wait(10)


class Breaks(OneProcess):
    """A store that raises what no store should, once it is asked for a renewal."""

    def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        if question.action == "renew":
            raise RuntimeError("broken")
        return super().ask(law, key, question)


class AsyncBreaks:
    place = "this process"

    def __init__(self) -> None:
        self._store = Breaks()
        self.slow_end = False

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        if question.action == "renew" and self.slow_end:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.3)
        return self._store.ask(law, key, question)

    async def close(self) -> None: ...


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_renewing_that_ends_by_an_error_is_a_loss_and_is_said() -> None:
    lost: list[str] = []
    with hold(GUARD, Breaks(), by="a", on_lost=lost.append) as lease:
        assert lease.wait_lost(10)
        assert not lease.held
    assert lost == ["store-unavailable"]
    for thread in threading.enumerate():  # its last words are to be heard here, and not in the test that comes next
        if thread.name.startswith("drillmaster lease"):
            thread.join(10)


def test_in_an_event_loop_renewing_that_ends_by_an_error_is_a_loss_and_is_said() -> None:
    lost: list[str] = []

    async def go() -> None:
        async with hold_async(GUARD, AsyncBreaks(), by="a", on_lost=lost.append) as lease:
            async with asyncio.timeout(10):
                assert await lease.wait_lost() == "store-unavailable"
            assert not lease.held

    asyncio.run(go())
    assert lost == ["store-unavailable"]


def test_who_is_cancelled_while_renewing_ends_is_cancelled() -> None:
    async def go() -> None:
        store = AsyncBreaks()
        store.slow_end = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.75):
                async with hold_async(GUARD, store, by="a"):
                    await asyncio.sleep(0.6)

    asyncio.run(go())


NO_THREADS = """import threading
from drillmaster.adapters.worker.lease import hold
from drillmaster.guards.lease import Lease
from drillmaster.stores.one_process import OneProcess
guard, store = Lease(lease="x", ttl_ms=600, may_steal=()), OneProcess()
threading.stack_size(1 << 46)
try:
    with hold(guard, store, by="a"):
        raise SystemExit("there was a thread")
except RuntimeError:
    pass
threading.stack_size(0)
with hold(guard, store, by="b") as lease:  # given back, and so to be had at once
    raise SystemExit("lost" if lease.wait_lost(1.5) else 0)
"""


def test_a_process_that_had_no_thread_for_one_lease_renews_the_next() -> None:
    ended = subprocess.run([sys.executable, "-c", NO_THREADS], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.needs("redis-server")
def test_many_leases_of_one_process_are_renewed_beside_each_other(tmp_path: Path) -> None:
    lost: list[str] = []
    with store_url("redis", tmp_path) as url, contextlib.closing(open_store(url, within_s=5)) as store:
        guard = Lease(lease="many", ttl_ms=1_500, may_steal=())
        with contextlib.ExitStack() as stack:
            # One that has time comes first, and holds up none that is due before it.
            slow = msgspec.structs.replace(guard, lease="slow", ttl_ms=60_000)
            stack.enter_context(hold(slow, store, by="a", on_lost=lost.append))
            leases = [
                stack.enter_context(hold(guard, store, by="a", item=f"{n}", on_lost=lost.append)) for n in range(30)
            ]
            ends = time.monotonic() + 4
            while time.monotonic() < ends:
                time.sleep(0.05)
                assert all(one.held for one in leases)
        assert lost == []
        assert {row.state for row in read_leases(url)} == {"released"}


@pytest.mark.needs("redis-server")
def test_a_lease_that_is_taken_away_while_leases_are_listed_is_left_out(tmp_path: Path) -> None:
    import redis

    with store_url("redis", tmp_path) as url, contextlib.closing(redis.Redis.from_url(url)) as client:
        client.hset("drillmaster:lease:{=gone}", "holder", "h")
        with contextlib.closing(open_store(url, within_s=5)) as store, hold(GUARD, store, by="a"):
            assert [row.lease for row in read_leases(url)] == ["nightly-export"]
