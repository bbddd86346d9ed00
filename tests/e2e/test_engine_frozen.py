"""An engine that the machine did not let run: what it did not see in that time is the client's, and it says how long that was."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_engine import Lab, Ran, always, answer, origin

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

FROZEN_S = 1.2


@pytest.mark.parametrize(
    "stage",
    [
        {"level": 4, "calls": 120},
        {"kind": "open", "level": 50, "rate": 40, "seconds": 3},
        {"level": 4, "calls": 120, "pauses": {"session_s": 0.01}},
    ],
)
def test_a_frozen_engine_was_busy_for_as_long_as_it_was_frozen(tmp_path: Path, stage: dict[str, Any]) -> None:
    lab = Lab(tmp_path)
    with (
        origin(always(answer(), after_s=0.05)) as port,
        lab.start(lab.spec(port, stage)) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.4)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(FROZEN_S)
        os.kill(process.pid, signal.SIGCONT)
        told = [json.loads(line) for line in process.stdout]
        code = process.wait(10)
    ran = Ran(code, told, lab.folder)
    assert ran.code == 0
    ended = ran.ended("s0")
    assert ended["longest_turn_ms"] > (FROZEN_S - 0.1) * 1e3
    assert ended["turn_p99_ms"] > (FROZEN_S - 0.1) * 1e3
