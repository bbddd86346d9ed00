"""The drill kit `webhook`: five checks with real processes, green on both stores, and red where something is broken on purpose."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.pglab import postgres

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROUNDS = 1_000 if os.environ.get("DRILLMASTER_SOAK", "") not in ("", "0") else 50
CHECKS = ["bad-signature", "model-hangs", "duplicate", "model-away", "killed"]


def drill(*words: str, **env: str) -> tuple[int, dict[str, object], str]:
    command = [sys.executable, "-m", "drillmaster", "webhook", "drill", "--json", *words]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False, timeout=580)
    return ran.returncode, json.loads(ran.stdout), ran.stderr


def test_killed_between_insert_and_answer_nothing_is_lost_and_nothing_doubled_on_a_file() -> None:
    code, told, err = drill("--rounds", str(ROUNDS))
    assert code == 0, err
    assert told["checks"] and [check["id"] for check in told["checks"]] == CHECKS  # type: ignore[attr-defined, index]
    assert (told["kills"], told["sent"], told["lost"], told["doubled"]) == (ROUNDS, ROUNDS + 4, 0, 0)


@pytest.mark.needs("postgres")
def test_killed_between_insert_and_answer_nothing_is_lost_and_nothing_doubled_on_postgresql() -> None:
    with postgres() as url:
        code, told, err = drill("--rounds", str(ROUNDS), "--inbox", url)
        assert code == 0, err
        assert (told["kills"], told["lost"], told["doubled"]) == (ROUNDS, 0, 0)
        again, told, _ = drill("--rounds", "3", "--inbox", url)  # beside what the one before left
        assert (again, told["sent"]) == (0, 7)


# Broken on purpose, by a module that Python imports at its start in every process of the drill.
BROKEN = {
    "an answer before the insert": """
import drillmaster.adapters.worker.webhook as hook
async def keep(self, arrival):
    return "new"
hook.Keeper.keep = keep
""",
    "an insert that is not on the disk": """
import drillmaster.stores.inbox as inbox
inbox.Inbox.keep = lambda self, arrival: "new"
inbox.Inbox.keep_all = lambda self, arrivals: ["new"] * len(arrivals)
""",
    "a grant outside the transaction, twice": """
import drillmaster.kits.webhook.ledger as ledger
once = ledger.grant
def grant(connection, effect, event):
    once(connection, effect, event)
    once(connection, effect, event)
ledger.grant = grant
""",
    "a terminator that asks the model first": """
import drillmaster.adapters.worker.webhook as hook, drillmaster.kits.webhook.ledger as ledger, asyncio
kept = hook.Keeper.keep
async def keep(self, arrival):
    asyncio.create_task(asyncio.to_thread(ledger.ask, "x"))
    await asyncio.sleep(1.5)
    return await kept(self, arrival)
hook.Keeper.keep = keep
""",
    "a signature that nobody checks": """
import drillmaster.adapters.worker.webhook as hook
from drillmaster.rules.webhook_schemes import Checked
import time
hook.check = lambda *args: Checked(signature="matched", time_s=int(time.time()))
""",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_drill_of_something_broken_fails(what: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BROKEN[what])
    code, told, _ = drill("--rounds", "3", "--wait-s", "3", PYTHONPATH=str(tmp_path))
    assert code == 1, told


@pytest.mark.needs("postgres")
def test_an_inbox_that_holds_events_of_others_is_refused() -> None:
    from drillmaster.stores.inbox import Arrival
    from drillmaster.stores.inbox_opening import open_inbox

    with postgres() as url:
        with open_inbox(url, within_s=5) as inbox:
            inbox.prepare()
            inbox.keep(Arrival(source="stripe-live", event_id="e", digest="d", body=b"{}"))
        code, told, err = drill("--rounds", "3", "--inbox", url)
        assert code == 2 and "stripe-live" in err and "error" in told
