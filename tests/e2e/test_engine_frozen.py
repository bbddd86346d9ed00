"""An engine that the machine did not let run: what it did not see in that time is the client's, and it says how long that was."""

import json
import os
import signal
import subprocess
import sys
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
        {"kind": "open", "level": 50, "rate_per_s": 40, "seconds": 3},
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


def _burn(core: int) -> "subprocess.Popen[bytes]":
    code = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile os.getppid() != 1: pass"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    "stage", [{"level": 8, "seconds": 1.5}, {"level": 8, "seconds": 1.5, "pauses": {"turn_s": 0.0}}]
)
def test_an_engine_says_how_long_others_had_its_core(tmp_path: Path, stage: dict[str, Any]) -> None:
    core = max(os.sched_getaffinity(0))
    lab = Lab(tmp_path)
    burner = _burn(core)
    try:
        assert burner.stdout is not None
        burner.stdout.readline()
        with origin(always(answer())) as port, lab.start(lab.spec(port, {"seconds": 0.1}, stage)) as process:
            os.sched_setaffinity(process.pid, {core})
            assert process.stdout is not None
            told = [json.loads(line) for line in process.stdout]
            code = process.wait(10)
    finally:
        burner.kill()
        burner.wait(5)
        burner.stdout.close()
    ended = Ran(code, told, lab.folder).ended("s1")
    assert ended["run_delay_s"] > 0.02 * ended["wall_s"]
    assert 0 < ended["long_delay_s"] <= ended["run_delay_s"]
    assert ended["run_delay_s"] + ended["cpu_s"] < 1.1 * ended["wall_s"]
    assert 0 < ended["delay_p99_ms"] <= ended["longest_delay_ms"] <= ended["run_delay_s"] * 1e3


def test_what_others_had_before_a_stage_is_none_of_its_own(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    with origin(always(answer())) as port:
        ran = lab.run(port, {"level": 1, "calls": 20}, {"level": 1, "calls": 20})
    for stage in ("s0", "s1"):
        ended = ran.ended(stage)
        assert 0 <= ended["run_delay_s"] <= ended["wall_s"] and ended["run_delay_counted"] in (True, False)
