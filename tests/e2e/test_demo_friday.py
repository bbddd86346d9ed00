"""The Friday demo as a newcomer runs it."""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.test_demo import Showing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_newcomer_sees_a_pass_a_broken_row_and_what_to_type_next(tmp_path: Path) -> None:
    began_s = time.monotonic()
    showing = Showing(tmp_path, "friday")
    out, err = showing.process.communicate(timeout=200)
    assert showing.process.returncode == 0, out + err
    assert time.monotonic() - began_s < 180
    assert showing.gone_within(3) == []
    assert "FAIL Tool success" in out
    assert "As it should be: a healthy agent got pass, exit code 0." in out
    assert "As it should be: an agent with one mistake got fail, exit code 1, row tool-success broken." in out
    assert out.splitlines()[-1].endswith("init friday")
    for run in (tmp_path / "runs").glob("2*"):
        assert "DEMO" in json.loads((run / "manifest.json").read_text())["stamps"]
        assert (run / "card.md").is_file()
        assert (run / "report.html").is_file()


def test_an_interrupt_ends_all_of_it(tmp_path: Path) -> None:
    showing = Showing(tmp_path, "friday", "--pass")
    give_up_s = time.monotonic() + 60
    while time.monotonic() < give_up_s and not list(tmp_path.glob("runs/*/events/missions.jsonl")):
        time.sleep(0.1)
    time.sleep(2)
    showing.process.send_signal(signal.SIGINT)
    out, err = showing.process.communicate(timeout=60)
    assert showing.process.returncode == 3, out + err
    assert "stopped" in err
    assert showing.gone_within(5) == []
