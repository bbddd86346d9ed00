"""The whole way of an interview over real processes: init, interview, gate, card, passport, report; and as its CI types it."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster import strict
from drillmaster.scaffold import blanks, fill
from tests.e2e.test_standins import standin

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

JOB = "one-sentence diff summary"


def _typed(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def _sign(path: Path, **others: object) -> None:
    """Fill in the thresholds, each by its example; `others`: what of the gate is not."""
    text = path.read_text()
    examples = {p: strict.load(f"v: {e}".encode(), place="x", fmt="yaml")["v"] for p, e in blanks(text).items()}
    path.write_text(fill(text, examples | {f"/gates/0/{name}": value for name, value in others.items()}))


def _next(said: str, word: str = "next") -> list[str]:
    """What was printed to be typed next."""
    [line] = [line for line in said.splitlines() if line.startswith(f"{word}: ")]
    return line.partition("drillmaster ")[2].split()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with standin("provider", "--latency-ms", "20", "--token-ms", "0.2") as (_, port):
        yield f"http://127.0.0.1:{port}/v1/chat/completions"


@pytest.fixture
def folder(tmp_path: Path, url: str) -> Path:
    """A folder in which init was typed; its silence is a short one, as a person would write it."""
    made = _typed(
        tmp_path, "init", "interview", "--job", JOB, "--url", url, "--dialect", "openai_chat", "--model", "standin-large",
        "--driver", "Ada", "--reader", "Bea", "--recorder", "Cem", "--from", "a test, this machine",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    plan = tmp_path / "interview-plan.yaml"
    text = plan.read_text()
    assert "idle_s: 120\n" in text and "\n  #stream: true\n" in text
    plan.write_text(text.replace("idle_s: 120\n", "idle_s: 0.5\n").replace("#stream: true", "stream: true"))
    (tmp_path / "printed").write_text(made.stdout)
    return tmp_path


def test_what_init_prints_can_be_typed_and_leads_to_a_report(folder: Path) -> None:
    printed = (folder / "printed").read_text()
    policy = folder / "interview-policy.yaml"
    run_it = _next(printed)
    assert run_it == ["interview", "interview-plan.yaml", "--policy", "interview-policy.yaml"]
    unsigned = _typed(folder, *run_it)
    assert unsigned.returncode == 2 and "found 12 blanks: /source, /owner" in unsigned.stderr
    assert not (folder / "runs").exists()
    _sign(policy)
    done = _typed(folder, *run_it)
    assert done.returncode == 0, done.stderr
    [run] = (folder / "runs").glob("2*")
    judge_it = [word.replace("RUN", f"runs/{run.name}") for word in _next(printed, "then")]
    assert _next(done.stdout) == judge_it
    judged = _typed(folder, *judge_it)
    assert judged.returncode == 0, judged.stdout
    assert "BREACH: none" in judged.stdout and "REHEARSAL" not in judged.stdout
    card = _typed(folder, "card", f"runs/{run.name}")
    assert f"# Free-Server Load Interview - {JOB}\n" in card.stdout and "a test, this machine" in card.stdout
    wrote = _typed(folder, "passport", "write", f"runs/{run.name}", "--job", JOB, "--policy", policy.name)
    assert wrote.returncode == 0, wrote.stderr
    assert _typed(folder, "passport", "check", JOB).returncode == 0
    report = _typed(folder, "report", f"runs/{run.name}")
    assert report.stdout.strip() == f"runs/{run.name}/report.html"
    page = (folder / report.stdout.strip()).read_text()
    assert len(page.encode()) <= 200_000 and "First word p50" in page and JOB in page
    assert _typed(folder, "verify", f"runs/{run.name}").returncode == 0


def test_whoever_decides_on_the_bound_is_led_to_a_passport_too(folder: Path) -> None:
    plan, policy = folder / "interview-plan.yaml", folder / "interview-policy.yaml"
    _sign(policy, decide="bound", block_s=0.1)  # as if no stall were longer than a fiftieth of a second
    short = _typed(folder, "interview", plan.name, "--policy", policy.name)
    wanted = "--seconds 5.9 --warm 100000, or seconds: 5.9, warm: 100000 in the plan"
    [told] = [
        line for line in short.stderr.splitlines() if line.startswith("what is signed for warm_c1 takes 59 calls ")
    ]
    assert told.endswith(f" of which no pass can come: {wanted}")
    refused = _typed(folder, *_next(short.stdout))
    assert refused.returncode == 2
    mends = [line for line in refused.stdout.splitlines() if line.startswith("mend warm_") and ".p95: " in line]
    told_s = [
        float(one) for line in mends for one in re.findall(r"seconds: ([0-9.]+) and warm: [0-9]+ in the plan", line)
    ]
    assert len(told_s) == len(mends) > 0 and min(told_s) >= 5.9
    text = plan.read_text().replace("#seconds: 295\n", f"seconds: {max(told_s)}\n")
    plan.write_text(text.replace("warm: 80\n", "warm: 100000\n"))
    done = _typed(folder, "interview", plan.name, "--policy", policy.name)
    assert done.returncode == 0, done.stderr
    judge_it = _next(done.stdout)
    judged = _typed(folder, *judge_it)
    assert judged.returncode == 0, judged.stdout
    wrote = _typed(folder, "passport", "write", judge_it[2], "--job", JOB, "--policy", policy.name)
    assert wrote.returncode == 0, wrote.stderr
    assert _typed(folder, "passport", "check", JOB).returncode == 0


@pytest.mark.parametrize("kind", ["", "summary"])
def test_the_same_as_its_job_for_ci_types_it(folder: Path, kind: str) -> None:
    policy = folder / "interview-policy.yaml"
    _sign(policy)
    if kind:  # as a person takes away the # of the decision part
        head, table, tail = policy.read_text().partition("    #decision:")
        policy.write_text(head + (table + tail).replace("    #", "    "))
    bin_dir = folder / ".venv" / "bin"
    bin_dir.mkdir(parents=True)
    wrapper = bin_dir / "drillmaster"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m drillmaster "$@"\n')
    wrapper.chmod(0o755)
    text = (folder / "interview-ci.yaml").read_text()
    job = strict.load(text.encode(), place="ci", fmt="yaml")
    lines = [
        step["run"] for one in job["jobs"].values() for step in one["steps"] if "/drillmaster " in step.get("run", "")
    ]
    lines += ['.venv/bin/drillmaster passport check "$JOB" --dir out/passports']
    for line in lines:
        done = subprocess.run(
            ["sh", "-ec", line], cwd=folder, env={**os.environ, **job["env"], "KIND": kind}, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "junit.xml", "levels.csv", "page.md", "passports", "report.html", "report.json",
    ]  # fmt: skip
    assert ET.parse(folder / "out" / "junit.xml").getroot().attrib["errors"] == "0"
    said = json.loads((folder / "out" / "report.json").read_text())
    assert said["verdict"]["status"] == "pass" and said["run"]["job"] == JOB
    assert [level["label"] for level in said["levels"]] == ["cold", "warm_c1", "warm_c4", "warm_c8"]
    assert all(level["first_word"]["n"] == level["n"] for level in said["levels"])
