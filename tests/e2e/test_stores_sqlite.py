"""A store in a file: locked, gone, replaced, unreadable, read-only, full, killed in the middle, under a wall clock that jumps."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from drillmaster.guards.lease import Lease, LeaseDecision, LeaseRequest
from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import Store, decide, decide_async
from drillmaster.stores.inbox import Arrival, Unkept
from drillmaster.stores.inbox_opening import open_inbox
from drillmaster.stores.opening import open_async_store, open_store

pytestmark = [pytest.mark.e2e]

WITHIN_S = 0.3
LIMITS = Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=30, burst=30)
CALL = OutboundCall(partner="acme", identity="prod")
LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
ASK = """
import sys
from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import decide
from drillmaster.stores.opening import open_store
limits = Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=30, burst=30)
store = open_store(sys.argv[1], within_s=0.3)
for _ in range(int(sys.argv[2])):
    decision = decide(limits, OutboundCall(partner="acme", identity="prod"), store)
    print(decision.reason, decision.left, decision.wait_ms, flush=True)
"""
HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "quota.db"
    open_store(f"sqlite:{path}").prepare()
    return path


def opened(path: Path) -> Store:
    return open_store(f"sqlite:{path}", within_s=WITHIN_S)


def denied_in_time(store: Store) -> None:
    began = time.monotonic()
    decision = decide(LIMITS, CALL, store)
    assert (decision.allowed, decision.reason) == (False, "store-unavailable")
    assert time.monotonic() - began < WITHIN_S + 0.35


def asked(
    path: Path, times: int = 1, env: dict[str, str] | None = None, user: str | None = None, **more: object
) -> list[str]:
    command = [sys.executable, "-c", ASK, f"sqlite:{path}", str(times)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})}, user=user, **more  # type: ignore[call-overload]  # preexec_fn
    )  # fmt: skip  # one call
    assert done.returncode == 0, done.stderr
    return [str(line) for line in done.stdout.splitlines()]


def test_a_lock_that_is_held_by_a_stopped_process_denies_in_time(path: Path) -> None:
    store = opened(path)
    assert decide(LIMITS, CALL, store).left == 29
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        denied_in_time(store)
        denied_in_time(store)
    finally:
        holder.kill()
        holder.communicate()
    assert decide(LIMITS, CALL, store).left == 28
    store.close()


def test_a_file_that_is_not_there_or_not_prepared_denies_and_is_not_made(tmp_path: Path) -> None:
    store = opened(tmp_path / "none.db")
    denied_in_time(store)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "none.db").touch()
    denied_in_time(store)
    store.prepare()
    assert decide(LIMITS, CALL, store).left == 29
    store.close()


def test_a_file_that_was_put_in_its_place_is_looked_at_and_not_the_one_that_was_there(path: Path) -> None:
    store = opened(path)
    assert decide(LIMITS, CALL, store).left == 29
    for one in path.parent.glob("quota.db*"):
        one.unlink()
    denied_in_time(store)
    path.touch()
    denied_in_time(store)
    store.close()


@pytest.mark.parametrize("gone", [("-wal", "-shm"), ("-wal",), ("-shm",)], ids=["log-and-index", "log", "index"])
def test_two_that_no_longer_share_a_log_hold_no_lease_at_once(path: Path, gone: tuple[str, ...]) -> None:
    """SQLite goes on writing to a log that was taken away, and whoever comes next makes another one."""
    lease = Lease(lease="export", ttl_ms=60_000, may_steal=())

    def request(action: str, who: str, token: str | None = None) -> LeaseRequest:
        return LeaseRequest(action=action, source="lock-client", holder=who, by=who, fencing_token=token)

    here = opened(path)
    mine = decide(lease, request("acquire", "here"), here)
    assert isinstance(mine, LeaseDecision) and mine.allowed
    for end in gone:
        path.with_name(path.name + end).unlink()
    script = (
        "import sys; from drillmaster.guards.lease import Lease, LeaseRequest; from drillmaster.stores import decide;"
        "from drillmaster.stores.opening import open_store;"
        "lease = Lease(lease='export', ttl_ms=60_000, may_steal=());"
        "request = LeaseRequest(action='acquire', source='lock-client', holder='there', by='there');"
        "print(decide(lease, request, open_store(sys.argv[1], within_s=0.3)).reason)"
    )
    done = subprocess.run([sys.executable, "-c", script, f"sqlite:{path}"], capture_output=True, text=True, timeout=60)
    renewed = decide(lease, request("renew", "here", mine.fencing_token), here)
    assert (done.stdout.strip() == "granted") + renewed.allowed <= 1, (done.stdout, renewed)


@pytest.mark.parametrize("gone", [("-wal", "-shm"), ("-wal",)], ids=["log-and-index", "log"])
def test_a_log_that_was_taken_away_while_nobody_else_came_is_not_lost(path: Path, gone: tuple[str, ...]) -> None:
    store = opened(path)
    assert decide(LIMITS, CALL, store).left == 29
    for end in gone:
        path.with_name(path.name + end).unlink()
    assert decide(LIMITS, CALL, store).left == 28
    store.close()
    assert asked(path) == ["within-quota 27 0"]


def test_an_inbox_whose_log_was_taken_away_writes_over_nothing_that_another_kept_since(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    inbox = open_inbox(str(path), within_s=1)
    inbox.prepare()
    assert inbox.keep(Arrival(source="s", event_id="e1", digest="d", body=b"{}")) == "new"
    for beside in ("-wal", "-shm"):
        (tmp_path / f"i.db{beside}").unlink()
    script = (
        "import sys; from drillmaster.stores.inbox import Arrival; from drillmaster.stores.inbox_opening import open_inbox\n"
        "with open_inbox(sys.argv[1], within_s=1) as inbox:\n"
        "    print(inbox.keep(Arrival(source='s', event_id='e2', digest='d', body=b'{}')))"
    )
    kept = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    assert kept.stdout == "new\n", kept.stderr
    for _ in range(2):
        with pytest.raises(Unkept, match="started anew"):
            inbox.keep(Arrival(source="s", event_id="e3", digest="d", body=b"{}"))
    inbox.close()
    again = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    assert again.stdout == "known\n", again.stderr


def test_a_file_that_is_none_of_ours_denies(path: Path) -> None:
    store = opened(path)
    assert decide(LIMITS, CALL, store).allowed
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE drillmaster_state SET state = \'{"requests": ["what"]}\'')
    connection.close()
    denied_in_time(store)
    store.close()
    for one in path.parent.glob("quota.db*"):
        one.unlink()
    path.write_bytes(b"not a database, and long enough to be looked at" * 100)
    denied_in_time(store)
    store.close()


def test_what_a_newer_version_keeps_is_dropped_by_no_older_one(path: Path) -> None:
    store = opened(path)
    assert decide(LIMITS, CALL, store).allowed
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        (state,) = connection.execute("SELECT state FROM drillmaster_state").fetchone()
        newer = json.loads(state)
        newer["requests"].append(7)
        connection.execute("UPDATE drillmaster_state SET state = ?", (json.dumps(newer),))
    denied_in_time(store)
    store.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lend another user")
def test_a_file_that_cannot_be_written_denies(path: Path) -> None:
    folder = Path("/tmp") / f"dm-ro-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        copy = Path(shutil.copy(path, folder / "quota.db"))
        copy.chmod(0o444)
        # Imported as root, since the other user may not read where this interpreter lies.
        began, _, rest = ASK.partition("limits =")
        dropped = "import asyncio, encodings.ascii, os, drillmaster.stores.sqlite\nos.setuid(65534)"
        script = f"{began}{dropped}\nsys.argv = ['-', {f'sqlite:{copy}'!r}, '1']\nlimits ={rest}"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd="/")
        assert done.stdout.split()[:1] == ["store-unavailable"], done.stderr
    finally:
        shutil.rmtree(folder)


def test_a_full_disk_denies_and_what_was_spent_stays(path: Path) -> None:
    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192))

    assert decide(LIMITS, CALL, opened(path)).left == 29
    assert asked(path, 3, preexec_fn=full) == ["store-unavailable None 0"] * 3
    assert decide(LIMITS, CALL, opened(path)).left == 28


def test_a_worker_that_is_killed_in_the_middle_leaves_a_file_that_counts_right(path: Path) -> None:
    for _ in range(8):
        worker = subprocess.Popen(
            [sys.executable, "-c", ASK, f"sqlite:{path}", "1000"], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        told = [worker.stdout.readline() for _ in range(2)]
        worker.kill()
        worker.wait()
        worker.stdout.close()
        if told[-1].startswith("over-cap"):
            break
    decision = decide(LIMITS, CALL, opened(path))
    with sqlite3.connect(path) as connection:
        (state,) = connection.execute("SELECT state FROM drillmaster_state").fetchone()
    connection.close()
    spent = sum(cost for _, cost in json.loads(state)["requests"][0])
    assert spent <= 30 and decision.left is not None and decision.left == 30 - spent


@pytest.mark.skipif(LIBRARY is None, reason="faketime is not installed")
@pytest.mark.parametrize("jump", ["+3600", "-3600", "+30d", "-30d"])
def test_a_wall_clock_that_is_set_moves_nothing(path: Path, jump: str) -> None:
    assert asked(path, 30)[-1] == "within-quota 0 0"
    env = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": jump, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    probe = "import time; print(time.time())"
    there = float(
        subprocess.run([sys.executable, "-c", probe], env={**os.environ, **env}, capture_output=True, text=True).stdout
    )
    assert abs(there - time.time()) > 3_000  # it is set
    (line,) = asked(path, 1, env)
    reason, left, wait_ms = line.split()
    assert (reason, left) == ("over-cap", "0") and 30_000 < int(wait_ms) <= 60_000


@pytest.mark.parametrize("shift_s", [-86_400, 0])
def test_another_boot_goes_on_behind_the_latest_time_that_was_told(path: Path, shift_s: int) -> None:
    """A host that came up with an older wall clock does not give back what was spent before."""
    store = opened(path)
    for _ in range(30):
        assert decide(LIMITS, CALL, store).allowed
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE drillmaster_clock SET boot = 'another', base_us = base_us + ?", (shift_s * 10**6,))
    connection.close()
    decision = decide(LIMITS, CALL, opened(path))
    assert decision.reason == "over-cap" and 50_000 < decision.wait_ms <= 60_000


def test_threads_tasks_and_forks_share_one_file(path: Path) -> None:
    store = open_store(f"sqlite:{path}", within_s=10)
    told: list[bool] = []

    def ask() -> None:
        told.extend(decide(LIMITS, CALL, store).allowed for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if sum(decide(LIMITS, CALL, store).allowed for _ in range(4)) == 4 else 1
        finally:
            os._exit(status)
    for one in threads:
        one.join()
    assert os.waitpid(pid, 0)[1] == 0

    async def in_a_loop() -> int:
        several = open_async_store(f"sqlite:{path}", within_s=10)
        try:
            return sum(
                one.allowed for one in await asyncio.gather(*(decide_async(LIMITS, CALL, several) for _ in range(20)))
            )
        finally:
            await several.close()

    assert sum(told) == 20 and asyncio.run(in_a_loop()) == 30 - 20 - 4
    store.close()


def test_a_storm_of_refusals_writes_nothing(path: Path) -> None:
    store = opened(path)
    for _ in range(30):
        decide(LIMITS, CALL, store)
    before = (path.parent / "quota.db-wal").stat().st_size
    for _ in range(200):
        assert decide(LIMITS, CALL, store).reason == "over-cap"
    # The clock is noted once a second, and nothing else.
    assert (path.parent / "quota.db-wal").stat().st_size - before <= 3 * 4_200
    store.close()


def test_old_buckets_go_when_new_ones_come(path: Path) -> None:
    store = opened(path)
    for n in range(60):
        short = Quota(partner=f"p{n}", identity="prod", window_ms=1, max_per_window=1, burst=1)
        assert decide(short, OutboundCall(partner=f"p{n}", identity="prod"), store).allowed
        time.sleep(0.003)
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM drillmaster_state").fetchone()
    connection.close()
    assert count <= 5
    store.close()
