"""Workers under flags, in processes of their own: what they see of their server's life, death and absence."""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.flagslab import REGISTRY, TOKENS, Wire, lab, until

pytestmark = pytest.mark.e2e
LEASE_S = 1.0
SLACK_S = 0.7
"""What a machine that is busy elsewhere may add."""


def test_a_kill_is_seen_by_every_worker_within_a_second(short_dir: Path) -> None:
    with lab(short_dir) as server:
        workers = [server.worker() for _ in range(4)]
        for worker in workers:
            worker.tell(do="spin", for_s=2.5)
        time.sleep(1)
        asked_ns = time.monotonic_ns()
        status, told = server.kill("refund", wait_s=5)
        assert (status, told["not_held"], len(told["held_by"]), told["durable"]) == (200, [], 4, True)
        assert told["seconds"] < 1
        spun = [worker.said() for worker in workers]
        for one in spun:
            assert one["n"] > 100, "nothing ran before the kill, and so nothing is shown"
            assert (one["last"] - asked_ns) / 1e9 < 1, "a call began more than a second after the kill"
            assert one["refused"] > one["last"]
        (killed,) = (line for line in server.lines("flag_switched") if line["state"] == "killed")
        assert (killed["flag"], killed["tools"]) == ("refund", ["issue_refund"])
        drained = until(lambda: len(server.lines("kill_drained")) == 4 and server.lines("kill_drained"))
        assert all(line["seconds"] < 1 for line in drained)
        # Each worker's sight of it stands in the evidence.
        assert {line["worker"] for line in server.lines("flag_read") if line["revision"] == killed["revision"]} == set(
            told["held_by"]
        )


def test_a_call_under_way_goes_on_and_is_followed_to_its_end(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker()
        worker.tell(do="long", for_s=1.2)
        time.sleep(0.2)
        status, told = server.kill("refund", wait_s=0.5)
        assert (status, told["not_held"]) == (200, [])
        assert worker.call()["error"] == "Killed"
        status, told = server.kill("refund", wait_s=5, drain=True)
        assert (status, told["running"]) == (200, 0)
        assert worker.said()["amount"] == 1
        (drained,) = server.lines("kill_drained")
        assert 0.8 < drained["seconds"] < 1.2 + SLACK_S


def test_a_flag_meets_calls_in_its_window_and_the_evidence_counts_them(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker()
        assert worker.call()["amount"] == 5
        window = {"window": "w1", "flags": [{"flag": "tenfold"}], "ttl_s": 30}
        assert server.drive("/inject", window)[0] == 200
        amounts: list[int] = []

        def last(amount: int) -> bool:
            amounts.append(worker.call()["amount"])
            return amounts[-1] == amount

        until(lambda: last(50), what="the wrong answer")
        assert server.drive("/lift", {"window": "w1"})[0] == 200
        until(lambda: last(5), what="the right answer again")
        worker.close()
        met = server.lines("flag_met")[-1]
        assert (met["flag"], met["window"], met["n"]) == ("tenfold", "w1", amounts.count(50))
        assert server.lines("flag_left")


def test_a_forced_timeout_lasts_for_the_callers_limit_and_ends_with_its_lift(short_dir: Path) -> None:
    with lab(short_dir) as server:
        quick, patient = server.worker(LIMIT_S="0.3"), server.worker()
        server.enable("toolTimeout")
        until(lambda: server.get("/workers")[1]["workers"][0]["held"] == server.get("/flags")[1]["revision"])
        time.sleep(0.1)
        told = quick.call()
        assert told["error"] == "TimeoutError"
        assert 0.29 < (told["ended"] - told["began"]) / 1e9 < 0.3 + SLACK_S
        patient.tell(do="call", amount=1)
        time.sleep(0.5)
        server.disable("toolTimeout")
        lifted_ns = time.monotonic_ns()
        told = patient.said()
        assert told["error"] == "TimeoutError"
        assert told["ended"] > lifted_ns - 50_000_000
        assert (told["ended"] - lifted_ns) / 1e9 < SLACK_S


@pytest.mark.parametrize("how", ["killed", "stopped", "cut off"])
def test_without_its_server_chaos_ends_within_the_lease_and_kills_stay(short_dir: Path, how: str) -> None:
    with lab(short_dir, lease_s=LEASE_S) as server:
        wire = Wire(server.port)
        worker = server.worker(wire.url)
        server.enable("toolError")
        until(lambda: worker.call().get("error") == "RuntimeError", what="the forced error")
        server.kill("search", wait_s=2)
        if how == "cut off":
            wire.cut.set()
        else:
            server.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        gone_s = time.monotonic()
        until(lambda: worker.call().get("amount") == 5, what="a call without chaos")
        assert time.monotonic() - gone_s < LEASE_S + SLACK_S
        if how == "cut off":
            assert server.state("toolError") == "on"  # for whoever it reaches
            until(lambda: server.lines("flag_lost"), what="that the worker fell silent")
            status, told = server.kill("refund", wait_s=0.3)
            assert (status, len(told["not_held"])) == (200, 1)
            wire.cut.clear()
            until(lambda: worker.call().get("error") == "Killed", what="the kill, once the wire is whole")
        wire.close()


def test_a_kill_stays_with_a_worker_whose_server_died(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker()
        server.kill("refund", wait_s=2)
        server.signal(signal.SIGKILL)
        time.sleep(LEASE_S + 0.5)
        assert worker.call()["error"] == "Killed"
        server.start()
        time.sleep(0.5)
        assert worker.call()["error"] == "Killed"
        assert server.state("refund") == "killed"
        server.restore("refund", wait_s=2)
        assert worker.call()["amount"] == 5


def test_a_restarted_server_holds_no_chaos(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker()
        server.enable("toolError")
        until(lambda: worker.call().get("error") == "RuntimeError", what="the forced error")
        server.signal(signal.SIGKILL)
        server.start()
        assert server.state("toolError") == "off"
        until(lambda: worker.call().get("amount") == 5, within_s=LEASE_S + SLACK_S, what="a call without chaos")


def test_a_worker_that_starts_without_its_server_is_killed_until_it_answers(short_dir: Path) -> None:
    with lab(short_dir) as server:
        server.signal(signal.SIGKILL)
        worker = server.worker()
        assert "ready" in worker.first
        assert worker.call()["error"] == "Killed"
        assert "killed until it says otherwise: refund" in worker.errors.read_text()
        server.start()
        until(lambda: worker.call().get("amount") == 5, what="a call, now that the server says so")


def test_an_unknown_name_ends_a_worker_at_start_up(short_dir: Path) -> None:
    (short_dir / "flags.yaml").write_text(REGISTRY.replace("toolError", "tool_eror"))
    with lab(short_dir) as server:
        worker = server.worker()
        assert "Did you mean 'tool_eror'?" in worker.first["refused"]
        assert worker.process.wait(10) == 2


def test_a_wrong_token_is_refused_at_start_up(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker(CHAOS_TOKEN="a-token-of-nobody")
        assert "set CHAOS_TOKEN to the read token's line" in worker.first["refused"]
        assert "ready" in server.worker(CHAOS_TOKEN=TOKENS["read"]).first


def test_something_else_at_that_address_is_refused_at_start_up(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker(f"{server.url}/elsewhere")
        assert "wanted a flag server" in worker.first["refused"]


def test_a_forked_worker_is_a_worker_of_its_own(short_dir: Path) -> None:
    with lab(short_dir) as server:
        worker = server.worker()
        server.enable("tenfold")
        until(lambda: worker.call()["amount"] == 50, what="the wrong answer")
        worker.tell(do="fork", amount=7, for_s=0.6)
        assert worker.said()["amount"] == 70
        server.kill("refund", wait_s=2)
        assert worker.said()["error"] == "Killed"
        assert worker.said()["forked"]
        assert worker.call()["error"] == "Killed"
        assert len({line["worker"] for line in server.lines("flag_joined")}) == 2
        assert len(server.lines("flag_left")) == 1


def test_calls_that_met_a_flag_stand_in_the_workers_own_timeline(short_dir: Path) -> None:
    with lab(short_dir) as server:
        log = short_dir / "timeline.jsonl"
        worker = server.worker(DRILL_LOG=str(log))
        server.enable("tenfold", first=1)
        until(lambda: worker.call()["amount"] == 50, what="the wrong answer")
        (line,) = (json.loads(line) for line in log.read_text().splitlines() if "flag_met" in line)
        assert (line["event"], line["flag"]) == ("flag_met", "tenfold")
