"""The snippets of the pages are run as they stand, and write what the reader reads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster import evidence

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.M | re.S)
INTERPRETER = {"python": [sys.executable, "-c"], "bash": ["bash", "-c"]}
BLOCKS = BLOCK.findall((ROOT / "docs/howto/write-a-timeline.md").read_text("utf-8"))
README = [block for block in BLOCK.findall((ROOT / "README.md").read_text("utf-8")) if "def mark" in block[1]]


def run(language: str, code: str, log: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "DRILL_LOG": str(log), "PATH": path}
    return subprocess.run([*INTERPRETER[language], code], env=env, capture_output=True, text=True, timeout=30)


def events(log: Path) -> list[object]:
    """Read events of good lines, and defects as they are."""
    found = evidence.rows([log.read_bytes()], file=log.name)
    return [item.event if isinstance(item, evidence.Row) else item for item in found]


@pytest.mark.e2e
@pytest.mark.parametrize(("language", "code"), BLOCKS, ids=[f"{i}-{block[0]}" for i, block in enumerate(BLOCKS)])
def test_a_snippet_writes_a_line_that_is_read(tmp_path: Path, language: str, code: str) -> None:
    log = tmp_path / "timeline.jsonl"
    ran = run(language, code, log)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert events(log) == ["fallback_engaged"]


@pytest.mark.e2e
@pytest.mark.parametrize(("language", "code"), BLOCKS, ids=[f"{i}-{block[0]}" for i, block in enumerate(BLOCKS)])
def test_a_line_behind_a_torn_one_is_not_lost(tmp_path: Path, language: str, code: str) -> None:
    log = tmp_path / "timeline.jsonl"
    log.write_bytes(b'{"t":"2026-11-29T15:30:00Z","event":"user_req')
    assert run(language, code, log).returncode == 0
    torn, after = events(log)
    assert isinstance(torn, evidence.Defect)
    assert after == "fallback_engaged"


@pytest.mark.e2e
@pytest.mark.parametrize("code", [code for _, code in README])
def test_the_four_lines_of_the_readme_work(tmp_path: Path, code: str) -> None:
    log = tmp_path / "timeline.jsonl"
    ran = run("python", code + 'mark("model_ok", id="r1", path="primary")', log)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert events(log) == ["model_ok"]
