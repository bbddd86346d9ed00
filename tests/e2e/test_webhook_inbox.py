"""The inbox on a real PostgreSQL and a real file: many at once, connections cut, servers paused, workers killed in the middle."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings as examples

from drillmaster.adapters.worker.webhook import Keeper
from drillmaster.kits.webhook.ledger import LEDGER, granted
from drillmaster.stores.inbox import Arrival, Effect, Inbox, Unapplied, Unkept
from drillmaster.stores.inbox_opening import backend_of, open_inbox
from tests.e2e.hooklab import Served, environ, run, settings
from tests.e2e.pglab import postgres, postgres_server
from tests.stores.inbox_machine import InboxMachine

pytestmark = [pytest.mark.e2e, pytest.mark.needs("postgres"), pytest.mark.timeout(180)]

MODULE = "drillmaster.kits.webhook.ledger"
TABLES = ("inbox", "inbox_other", "inbox_effects", "inbox_notes", "rehearsal_ledger")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as url:
        with open_inbox(url, within_s=5) as inbox:
            inbox.prepare()
        connection = backend_of(url, within_s=5).connect()
        connection.execute(LEDGER)
        connection.close()
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def named(request: pytest.FixtureRequest, server: str, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgresql":
        sql(server, "TRUNCATE " + ", ".join(f"drillmaster_{table}" for table in TABLES))
        yield server
        return
    path = str(tmp_path / "inbox.db")
    with open_inbox(path, within_s=5) as inbox:
        inbox.prepare()
    connection = backend_of(path, within_s=5).connect()
    connection.execute(LEDGER)
    connection.close()
    yield path


def test_an_inbox_lies_in_the_schema_of_its_url(server: str) -> None:
    sql(server, "CREATE SCHEMA mine")
    mine = f"{server}&options=-csearch_path%3Dmine"
    with open_inbox(mine, within_s=5) as inbox:
        inbox.prepare()
        assert inbox.keep(Arrival(source="s", event_id="e", digest="d", body=b"{}")) == "new"
    assert sql(server, "SELECT count(*) FROM mine.drillmaster_inbox") == [(1,)]
    assert sql(server, "SELECT count(*) FROM drillmaster_inbox WHERE source = 's'") == [(0,)]
    sql(server, "DROP SCHEMA mine CASCADE")


def sql(named: str, query: str) -> list[Any]:
    connection = backend_of(named, within_s=5).connect()
    try:
        found = connection.execute(query)
        return list(found.fetchall()) if found.description else []
    finally:
        connection.close()


def arrival(name: str, digest: str = "d", amount: int = 1) -> Arrival:
    body = msgspec.json.encode(
        {"id": name, "type": "invoice.paid", "account": "a", "amount_minor": amount, "currency": "EUR"}
    )
    return Arrival(source="acme", event_id=name, digest=digest, body=body)


def test_an_inbox_in_a_database_does_what_a_model_of_it_does(server: str) -> None:
    control: Any = backend_of(server, within_s=5).connect()

    class OnPostgreSQL(InboxMachine):
        @staticmethod
        def empty() -> None:
            control.execute("TRUNCATE " + ", ".join(f"drillmaster_{table}" for table in TABLES))

        @staticmethod
        def opened() -> Inbox:
            return open_inbox(server, within_s=5)

        @staticmethod
        def move(ms: int) -> None:
            """A clock that goes on by so much is rows that are older by so much."""
            control.execute(
                "UPDATE drillmaster_inbox SET claimed_ms = claimed_ms - %s, claim_until_ms = claim_until_ms - %s,"
                " not_before_ms = not_before_ms - %s",
                (ms, ms, ms),
            )

        @staticmethod
        def cut(inbox: Inbox) -> None:
            connection: Any = inbox._connection
            if connection is not None:
                control.execute("SELECT pg_terminate_backend(%s, 1000)", (connection.info.backend_pid,))

    case = OnPostgreSQL.TestCase
    case.settings = examples(max_examples=25, stateful_step_count=30, deadline=None)
    case().runTest()
    control.close()


def test_many_who_keep_the_same_events_at_once_keep_each_once(named: str) -> None:
    def keep(seed: int) -> Counter[str]:
        rng = random.Random(seed)
        names = [f"e{n}" for n in range(60)]
        rng.shuffle(names)
        told: Counter[str] = Counter()
        with open_inbox(named, within_s=20) as inbox:
            for n in range(0, 60, 4):
                batch = [arrival(name, digest="b" if seed == 7 else "a") for name in names[n : n + 4]]
                if seed % 2:
                    told.update(inbox.keep_all(sorted(batch, key=lambda one: one.event_id)))
                else:
                    told.update(inbox.keep(one) for one in batch)
        return told

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        told = sum(pool.map(keep, range(8)), Counter())
    assert told["new"] == 60 and told["new"] + told["known"] + told["other-body"] == 480
    assert sql(named, "SELECT count(*), count(DISTINCT event_id) FROM drillmaster_inbox") == [(60, 60)]


def test_two_at_once_never_claim_one_event(named: str) -> None:
    with open_inbox(named, within_s=20) as inbox:
        inbox.keep_all([arrival(f"e{n:03}") for n in range(100)])

    def claim(_: int) -> list[str]:
        names = []
        with open_inbox(named, within_s=20) as inbox:
            while (event := inbox.claim(lease_ms=60_000)) is not None:
                names.append(event.event_id)
        return names

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        names = [name for part in pool.map(claim, range(6)) for name in part]
    assert sorted(names) == [f"e{n:03}" for n in range(100)]


# A rule that is slow at times, so that a kill finds a worker in the middle of one.
SLOW = f"""\
import random, time
from {MODULE} import rule as quick, grant

class Slow:
    def decide(self, event_id, document):
        time.sleep(random.choice([0, 0, 0.002, 0.02]))
        return quick.decide(event_id, document)

def apply(connection, effect, event):
    grant(connection, effect, event)
    time.sleep(random.choice([0, 0.002, 0.01]))

rule = Slow()
"""


def test_workers_that_are_killed_over_and_over_grant_each_event_once(named: str, tmp_path: Path) -> None:
    (tmp_path / "slowrule.py").write_text(SLOW)
    path = settings(tmp_path, inbox=named, lease_s=0.3)
    total = 600
    with open_inbox(named, within_s=20) as inbox:
        inbox.keep_all([arrival(f"e{n:03}", amount=n + 1) for n in range(total)])
    words = [
        sys.executable,
        "-m",
        "drillmaster",
        "webhook",
        "work",
        str(path),
        "--rule",
        "slowrule:rule",
        "--apply",
        "slowrule:apply",
    ]

    def start() -> subprocess.Popen[bytes]:
        env = environ(PYTHONPATH=str(tmp_path))
        return subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    rng, workers, kills = random.Random(5), [start(), start()], 0
    try:
        with open_inbox(named, within_s=20) as inbox:
            ends = time.monotonic() + 90
            while inbox.counts().waiting and time.monotonic() < ends:
                time.sleep(rng.uniform(0.5, 0.9))  # a start takes half of it
                if kills == 40:  # on a busy machine they would be killed before they began
                    continue
                at = rng.randrange(2)
                workers[at].kill()
                workers[at].wait()
                kills += 1
                workers[at] = start()
            counts = inbox.counts()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert (counts.done, counts.waiting, counts.parked, counts.effects) == (total, 0, 0, total) and kills >= 2
    connection = backend_of(named, within_s=5).connect()
    assert granted(connection, "acme") == {f"e{n:03}": [n + 1] for n in range(total)}
    connection.close()


def test_a_terminator_that_is_killed_at_any_moment_loses_nothing_that_it_answered(named: str, tmp_path: Path) -> None:
    """Clients that send each event until it is answered 202, as providers do, while the process dies every few milliseconds."""
    path = settings(tmp_path, inbox=named, read_within_s=5)
    process = subprocess.Popen(
        [sys.executable, "-m", "drillmaster.kits.webhook.dying", str(path)],
        env=environ(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    hook = Served(process, int(process.stdout.readline().split()[1]), "")
    children, over, kills, rng = [0], threading.Event(), Counter[str](), random.Random(11)

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            children.append(int(line.split()[1]))

    def kill() -> None:
        while not over.wait(rng.uniform(0.02, 0.08)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(children[-1], signal.SIGKILL) if children[-1] else None
                kills["killed"] += 1

    def send(first: int) -> None:
        rounds = 0
        while not rounds or kills["killed"] < 15:  # a fast machine sends all of them again, as providers may
            rounds += 1
            for n in range(first, first + 60):
                until_answered(n)

    def until_answered(n: int) -> None:
        body = arrival(f"e{n:03}", amount=n + 1).body
        for _ in range(500):
            try:
                answer = hook.post(body)[0]
            except (OSError, http.client.HTTPException):
                continue
            assert answer in (202, 500)
            if answer == 202:
                return
        raise AssertionError(f"e{n:03} was never answered")

    listener, killer = threading.Thread(target=listen, daemon=True), threading.Thread(target=kill)
    listener.start()
    killer.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(send, (0, 60, 120)))
    finally:
        over.set()
        killer.join()
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        listener.join(10)
        process.stdout.close()
    worked = run("work", str(path), "--rule", f"{MODULE}:rule", "--apply", f"{MODULE}:grant", "--once")
    assert worked.stdout == "effect 180\n", worked.stdout + worked.stderr
    connection = backend_of(named, within_s=5).connect()
    assert granted(connection, "acme") == {f"e{n:03}": [n + 1] for n in range(180)}
    connection.close()
    assert kills["killed"] >= 15 and len(children) > 10


def test_what_waits_for_a_person_is_told_and_closed_from_the_command_line(named: str, tmp_path: Path) -> None:
    path = settings(tmp_path, inbox=named)
    with open_inbox(named, within_s=5) as inbox:
        inbox.keep_all([arrival("e1"), arrival("e1", digest="other"), arrival("e2", amount=0), arrival("e3")])
    worked = run("work", str(path), "--rule", f"{MODULE}:rule", "--apply", f"{MODULE}:grant", "--once")
    assert worked.returncode == 0 and worked.stdout == "effect 2; parked 1\n", worked.stderr
    told = run("status", str(path), "--json")
    assert told.returncode == 1
    assert {(one["kind"], one["event_id"]) for one in json.loads(told.stdout)["open"]} == {
        ("other-body", "e1"),
        ("parked", "e2"),
    }
    assert run("again", str(path), "e2", "--by", "ada").returncode == 0
    assert run("work", str(path), "--rule", f"{MODULE}:rule", "--once").stdout == "parked 1\n"
    assert run("looked", str(path), "e2", "--by", "ada").returncode == 0
    assert run("looked", str(path), "e1", "--by", "ada").returncode == 0
    assert run("looked", str(path), "e1", "--by", "ada").returncode == 2
    assert run("status", str(path)).returncode == 0
    assert run("forget", str(path), "--days", "1").stdout == "0 bodies emptied\n"


def test_connections_that_are_cut_lose_nothing_and_double_nothing(server: str) -> None:
    sql(server, "TRUNCATE " + ", ".join(f"drillmaster_{table}" for table in TABLES))
    over, cuts = threading.Event(), Counter[str]()

    def cut() -> None:
        rng = random.Random(3)
        control: Any = backend_of(server, within_s=5).connect()
        while not over.is_set():
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'drills'"
            cuts["cut"] += len(control.execute(query + " AND backend_type = 'client backend'").fetchall())
            time.sleep(rng.uniform(0.002, 0.02))
        control.close()

    def until(what: Any) -> Any:
        while True:
            try:
                return what()
            except Unkept:
                cuts["unkept"] += 1

    from drillmaster.kits.webhook.ledger import grant, rule

    def work() -> None:
        with open_inbox(server, within_s=5) as inbox:
            idle = 0
            while idle < 20:
                event = until(lambda: inbox.claim(lease_ms=200))
                if event is None:
                    idle += 1
                    time.sleep(0.02)
                    continue
                idle = 0
                effect = rule.decide(event.event_id, msgspec.json.decode(event.body))
                with contextlib.suppress(Unkept, Unapplied):  # the claim runs out, and the event comes again
                    inbox.settle(event, effect, reason="x", apply=grant)

    def keep() -> None:
        with open_inbox(server, within_s=5) as inbox:
            for n in range(200):
                assert until(lambda n=n: inbox.keep(arrival(f"e{n:03}", amount=n + 1))) in ("new", "known")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        cutter = pool.submit(cut)
        kept = [pool.submit(keep), pool.submit(work), pool.submit(work)]
        try:
            for one in kept:
                one.result(120)
        finally:
            over.set()
        cutter.result(30)
    work()  # what the cuts left
    connection = backend_of(server, within_s=5).connect()
    assert granted(connection, "acme") == {f"e{n:03}": [n + 1] for n in range(200)}
    connection.close()
    assert cuts["cut"] > 20


def test_a_server_that_is_paused_is_an_answer_in_time_and_no_lost_event(server: str) -> None:
    sql(server, "TRUNCATE " + ", ".join(f"drillmaster_{table}" for table in TABLES))
    opened: list[Inbox] = []

    def connected() -> Inbox:
        opened.append(open_inbox(server, within_s=2))
        return opened[-1]

    keeper = Keeper(connected, within_s=0.3, threads=1)
    assert asyncio.run(keeper.keep(arrival("e1"))) == "new"
    connection: Any = opened[0]._connection
    backend = connection.info.backend_pid
    os.kill(backend, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert asyncio.run(keeper.keep(arrival("e2"))) == "failed"
        assert time.monotonic() - began < 1
    finally:
        os.kill(backend, signal.SIGCONT)
    assert asyncio.run(keeper.keep(arrival("e3"))) == "new"
    assert asyncio.run(keeper.keep(arrival("e2"))) == "known"  # it was kept late, and comes again
    keeper.close()


def test_a_session_that_may_lose_what_it_commits_is_told_not_to(server: str) -> None:
    sql(server, "ALTER ROLE drills SET synchronous_commit = off")
    try:
        connection: Any = backend_of(server, within_s=5).connect()
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        connection.close()
    finally:
        sql(server, "ALTER ROLE drills RESET synchronous_commit")


def test_what_a_database_says_of_a_row_is_not_told(server: str) -> None:
    with open_inbox(server, within_s=5) as inbox, pytest.raises(Unkept) as raised:
        inbox.keep(Arrival(source="acme", event_id="e-quoted", digest=None, body=b"the body"))  # type: ignore[arg-type]
    assert "e-quoted" not in str(raised.value) and "null value" in str(raised.value)


@pytest.mark.parametrize("how", ["swallowed", "commit", "rollback"])
def test_an_effect_whose_own_writes_failed_is_not_said_to_be_done(server: str, how: str) -> None:
    """After a statement that failed, PostgreSQL answers COMMIT with a rollback, and no error."""
    sql(server, "TRUNCATE " + ", ".join(f"drillmaster_{table}" for table in TABLES))

    def apply(connection: Any, effect: Effect, event: Any) -> None:
        if how == "swallowed":
            with contextlib.suppress(Exception):
                connection.execute("INSERT INTO no_such_table VALUES (1)")
        else:
            getattr(connection, how)()

    with open_inbox(server, within_s=5) as inbox:
        inbox.keep(arrival("e1"))
        event = inbox.claim(lease_ms=60_000)
        assert event is not None
        effect = Effect(kind="credit", account="a", amount_minor=1, currency="EUR")
        with pytest.raises(Unapplied):
            inbox.settle(event, effect, reason="effect", apply=apply)
        assert (inbox.counts().waiting, inbox.counts().done, inbox.counts().effects) == (1, 0, 0)
        assert inbox.claim(lease_ms=1, source="other") is None
        assert inbox.settle(event, effect, reason="effect", apply=lambda *_: None) == "done"


def test_a_worker_asks_its_rule_about_its_own_provider_s_events_alone(named: str, tmp_path: Path) -> None:
    """Two providers in one database: each one's rule would end the other's events."""
    path = settings(tmp_path, inbox=named)
    with open_inbox(named, within_s=5) as inbox:
        inbox.keep(arrival("e1"))
        inbox.keep(msgspec.structs.replace(arrival("e2"), source="umbrella"))
        assert run("work", str(path), "--rule", f"{MODULE}:rule", "--once").stdout == "effect 1\n"
        assert (inbox.counts().waiting, inbox.counts().effects) == (1, 1)


def test_a_database_that_is_killed_and_started_again_has_all_that_was_answered() -> None:
    with postgres_server(fsync=True) as running:
        with open_inbox(running.url, within_s=2) as inbox:
            inbox.prepare()
        kept: list[str] = []
        over = threading.Event()

        def keep(who: int) -> None:
            with open_inbox(running.url, within_s=2) as mine:
                n = 0
                while not over.is_set():
                    name = f"e{who}_{n:05}"
                    try:
                        mine.keep(arrival(name))
                    except Unkept:
                        time.sleep(0.02)  # and again, as a provider does
                        continue
                    kept.append(name)
                    n += 1

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            keepers = [pool.submit(keep, who) for who in range(3)]
            try:
                for _ in range(2):
                    time.sleep(0.3)
                    before = len(kept)
                    running.stop()
                    running.start()
                    time.sleep(0.3)
                    assert len(kept) > before > 0
            finally:
                over.set()
            for one in keepers:
                one.result(20)
        rows = [row[0] for row in sql(running.url, "SELECT event_id FROM drillmaster_inbox")]
        assert len(rows) == len(set(rows)) and set(kept) <= set(rows)
