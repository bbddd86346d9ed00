"""From the run to the verdict by the command line: what an interview prints as its next step is the next step."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.interviewlab import answer, interviewing, server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

GATE = {"warm_c1": {"p95_s": 1, "error_rate": 0.0}, "warm_c4": {"p95_s": 1, "error_rate": 0.0}, "cold_max_s": 5}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of one sealed interview, with its thresholds in its working folder."""
    folder = tmp_path_factory.mktemp("interview")
    for lab in interviewing(folder):
        with server(lambda _: (0.02, answer())) as (url, _truth):
            done = lab.run(url, "--levels", "1,4", "--warm", "30", "--idle", "0.3", "--timeout", "10")
        assert done.returncode == 0, done.stderr
        assert "no thresholds yet: drillmaster init interview writes interview-policy.yaml" in done.stdout
        assert f"then: drillmaster gate interview runs/{lab.run_dir.name} --policy interview-policy.yaml" in done.stdout
        (lab.run_dir.parent.parent / "gate.json").write_text(json.dumps(GATE))
        yield lab.run_dir


def gate(run: Path, *words: str, **limits: object) -> "subprocess.CompletedProcess[str]":
    folder = run.parent.parent
    (folder / "gate.json").write_text(json.dumps({**GATE, **limits}))
    command = [
        sys.executable,
        "-m",
        "drillmaster",
        "gate",
        "interview",
        f"runs/{run.name}",
        "--policy",
        "gate.json",
        *words,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30)


def test_a_sealed_run_is_judged_by_the_articles_thresholds_and_keeps_its_verdict(sealed: Path) -> None:
    done = gate(sealed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BREACH: none" in done.stdout
    assert "UNSEALED" not in done.stdout
    assert json.loads((sealed / "verdict.json").read_text())["status"] == "pass"


def test_a_breach_is_one_by_code_and_by_word(sealed: Path) -> None:
    done = gate(sealed, "--no-record", warm_c4={"p95_s": 0.001, "error_rate": 0.0})
    assert done.returncode == 1
    assert "BREACH: warm_c4 p95 0.0" in done.stdout


def test_a_threshold_for_a_level_that_was_not_run_is_refused(sealed: Path) -> None:
    done = gate(sealed, "--no-record", warm_c8={"p95_s": 1, "error_rate": 0.0})
    assert done.returncode == 2
    assert "warm_c8 has a threshold and was not run" in done.stdout
    assert "BREACH" not in done.stdout


def test_a_limit_that_no_call_could_break_is_refused(sealed: Path) -> None:
    done = gate(sealed, "--no-record", cold_max_s=90)
    assert done.returncode == 2
    assert "cut before it can be over that" in done.stdout


def test_the_rows_file_alone_is_somebodys_word(sealed: Path) -> None:
    rows = sealed / "interview.json"
    command = [sys.executable, "-m", "drillmaster", "gate", "interview", str(rows), "gate.json"]
    folder = sealed.parent.parent
    refused = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30)
    assert (refused.returncode, "--unsealed" in refused.stderr) == (2, True)
    gate(sealed, "--no-record")
    bare = subprocess.run([*command, "--unsealed"], cwd=folder, capture_output=True, text=True, timeout=30)
    assert (bare.returncode, "UNSEALED, UNPROVEN" in bare.stdout) == (0, True)


def test_one_changed_byte_of_the_samples_is_named_and_refused(sealed: Path) -> None:
    samples = sealed / "samples.bin"
    whole = samples.read_bytes()
    try:
        samples.write_bytes(whole[:-200] + bytes([whole[-200] ^ 1]) + whole[-199:])
        done = gate(sealed, "--no-record")
        assert done.returncode == 2
        assert "samples.bin" in done.stderr
    finally:
        samples.write_bytes(whole)
