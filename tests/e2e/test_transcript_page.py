"""The snippets of the page on transcripts are run as they stand, and a census takes what they write."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster import evidence
from drillmaster.rules.tool_recovery import recovery
from drillmaster.transcripts import read_census, read_mission

pytestmark = pytest.mark.e2e

PAGE = (Path(__file__).resolve().parents[2] / "docs/howto/replay-a-mission.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(python|js)\n(.*?)^```", PAGE, re.M | re.S)
MISSION, RUN = "m171a2b", "20261204T160000Z-1a2b"


def run(words: list[str], code: str, folder: Path) -> None:
    (folder / "transcripts").mkdir()
    environ = {
        **os.environ,
        "DRILL_TRANSCRIPTS": str(folder / "transcripts"),
        "DRILL_RUN": RUN,
        "DRILL_LOG": str(folder / "timeline.jsonl"),
    }
    ran = subprocess.run([*words, code], env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def code_of(language: str, word: str) -> str:
    (code,) = [code for kind, code in BLOCKS if kind == language and word in code]
    return code


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ([sys.executable, "-c"], "python"),
        pytest.param(["node", "-e"], "js", marks=pytest.mark.needs("node")),
    ],
)
def test_a_snippet_writes_a_whole_transcript(tmp_path: Path, words: list[str], language: str) -> None:
    run(words, code_of(language, "model_request"), tmp_path)
    census = read_census(tmp_path, None, {MISSION: 1}, run=RUN)
    assert (census.lacking, census.complete, census.spoilt) == ((), 1, 0)
    found = read_mission(tmp_path, None, MISSION, run=RUN)
    assert found is not None
    kinds = [one.kind for one in found.entries]
    assert kinds[:4] == ["started", "user", "model_request", "model_response"]
    assert kinds[-2:] == ["answer", "ended"]
    assert found.defects == ()
    assert (list(found.entries)[3].body or b"").startswith(b"data: ")


@pytest.mark.parametrize("word", ["tool_finished", 'tool_call("refund", attempts'])
def test_the_lines_about_tools_add_up(tmp_path: Path, word: str) -> None:
    run([sys.executable, "-c"], code_of("python", word), tmp_path)
    rows = evidence.rows([(tmp_path / "timeline.jsonl").read_bytes()], file="timeline.jsonl")
    found = recovery(row for row in rows if isinstance(row, evidence.Row))
    assert (found.succeeded, found.contradictions, found.unusable) == (1, (), ())
