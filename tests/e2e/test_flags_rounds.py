"""Rounds of orders, kills of the server and pauses: no kill that was answered is lost, no chaos outlives its lease."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.flagslab import lab, until

SOAK = os.environ.get("DRILLMASTER_SOAK", "") not in ("", "0")
ROUNDS = 1_000 if SOAK else 50
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7_200 if SOAK else 300)]
LEASE_S = 1.0
SLACK_S = 1.0
"""What a machine that is busy elsewhere may add."""


def test_rounds_of_kills_and_pauses(short_dir: Path) -> None:
    lot = random.Random(48)  # which round does what
    with lab(short_dir, lease_s=LEASE_S) as server:
        worker = server.worker()
        killed = False
        chaos_until_s = 0.0
        for nth in range(ROUNDS):
            order = lot.choice(("kill", "restore", "enable", "disable"))
            if order == "kill":
                status, told = server.kill("refund", wait_s=3)
                assert (status, len(told["held_by"]), told["not_held"]) == (200, 1, []), nth
                killed = True
            elif order == "restore":
                status, told = server.restore("refund", wait_s=3)
                assert (status, len(told["held_by"]), told["not_held"]) == (200, 1, []), nth
                killed = False
            elif order == "enable":
                assert server.enable("tenfold")[0] == 200, nth
            else:
                assert server.disable("tenfold")[0] == 200, nth
            trouble = lot.choice(("none", "none", "SIGKILL", "pause"))
            if trouble == "SIGKILL":
                server.signal(signal.SIGKILL)
                chaos_until_s = time.monotonic() + LEASE_S + SLACK_S
                server.start()
                # A restarted server has every kill that was answered, and no chaos.
                assert (server.state("refund"), server.state("tenfold")) == ("killed" if killed else "off", "off"), nth
            elif trouble == "pause":
                server.signal(signal.SIGSTOP)
                time.sleep(lot.uniform(0, 0.3))
                server.signal(signal.SIGCONT)
            told = worker.call()
            assert (told.get("error") == "Killed") is killed, (nth, order, trouble, told)
            if not killed and server.state("tenfold") == "off" and time.monotonic() > chaos_until_s:
                until(
                    lambda: worker.call()["amount"] == 5, within_s=LEASE_S + SLACK_S, what=f"round {nth} without chaos"
                )
        assert len(server.lines("flags_started")) > 5
