"""The built-in detector and its twin, rules of Prometheus, agree: promtool holds one against the other."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.needs("promtool")]

WATCHES = {
    "the workbook's": [],
    "a drill's": ["--window", "5m:30s:10"],
    "two severities, and enough calls": ["--window", "1h:5m:14.4:sev1", "--window", "30m:2m:3", "--least", "50"],
    "two of one severity": ["--window", "10m:1m:20", "--window", "30m:3m:5"],
}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)


def written(folder: Path, words: list[str], share: str) -> None:
    base = [sys.executable, "-m", "drillmaster", "detector", "rules", "--target", "0.99", *words]
    for more in (["--out", "burn.yml"], ["--test", "burn.yml", "--share", share, "--out", "test.yml"]):
        done = run(folder, *base, *more)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("share", ["0.05", "0.5", "1"])
@pytest.mark.parametrize("name", WATCHES)
def test_prometheus_raises_what_the_built_in_detector_raises(name: str, share: str, tmp_path: Path) -> None:
    written(tmp_path, WATCHES[name], share)
    assert "burn.yml" in (tmp_path / "test.yml").read_text()
    for words in (["check", "rules", "burn.yml"], ["test", "rules", "test.yml"]):
        done = run(tmp_path, "promtool", *words)
        assert done.returncode == 0, done.stdout + done.stderr


OTHERS = {
    "another factor": ("(10 * 0.01)", "(14 * 0.01)"),
    "another window": ("[30s]", "[90s]"),
    "one window": ("[5m]", "[30s]"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_rules_that_say_something_else_do_not_agree(name: str, tmp_path: Path) -> None:
    written(tmp_path, ["--window", "5m:30s:10"], "0.5")
    rules = tmp_path / "burn.yml"
    text = rules.read_text()
    assert OTHERS[name][0] in text
    rules.write_text(text.replace(*OTHERS[name]))
    assert run(tmp_path, "promtool", "test", "rules", "test.yml").returncode != 0
