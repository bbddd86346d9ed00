"""Interviews of a real model server, in three APIs: what it counted is what is on record."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.evidence.samples import OUTCOMES, Sample, read_samples
from tests.e2e.llamalab import PYTHON, Llama, llama

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.skipif(PYTHON is None, reason="needs DRILLMASTER_LLAMA_PYTHON"),
]

CLI = (sys.executable, "-m", "drillmaster")
TOKENS = 24
LEVELS = {"cold": 1, "warm_c1": 150, "warm_c4": 150}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    with llama(tmp_path_factory.mktemp("llama")) as one:
        yield one


def interview(folder: Path, url: str, dialect: str, *more: str) -> list[Sample]:
    words = ["interview", url, "--dialect", dialect, "--model", "tiny", "--max-tokens", str(TOKENS), "--idle", "0"]
    words += ["--levels", "1,4", "--warm", "15", "--rehearsal", "--yes", *more]
    done = subprocess.run([*CLI, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    [run] = (folder / "runs").glob("2*")
    return [
        row for name in ("samples.cold.bin", "samples.bin") for row in read_samples((run / name).read_bytes())[1].rows
    ]


@pytest.mark.parametrize(
    "dialect, path",
    [
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("anthropic", "/v1/messages"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_tokens_and_ends_are_what_the_server_counted(
    model: Llama, tmp_path: Path, dialect: str, path: str, stream: bool
) -> None:
    before = model.counted("tokens_predicted_total")
    rows = interview(tmp_path, model.url + path, dialect, *(["--stream"] if stream else []))
    kinds = Counter(OUTCOMES[row.outcome] for row in rows)
    assert set(kinds) <= {"ok", "short"}, kinds  # a model of noise seldom says that it is done
    # Its Responses API says "completed" of what the limit cut off, and nothing else could tell.
    assert kinds["short"] > 0 or dialect == "openai_responses"
    assert sum(row.tokens for row in rows) == model.counted("tokens_predicted_total") - before
    assert all(0 < row.tokens <= TOKENS for row in rows)
    if stream:
        assert all(0 < row.sent_ns < row.first_ns <= row.word_ns <= row.end_ns for row in rows if row.words)
        assert all(0 < row.words <= TOKENS for row in rows if OUTCOMES[row.outcome] == "short")
    else:
        assert all(row.words == 0 for row in rows)


def gated(tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    limits = {"cold_max_s": 50, **{label: {"p95_s": 50, "error_rate": 0.0} for label in ("warm_c1", "warm_c4")}}
    (tmp_path / "gate.json").write_text(json.dumps(limits))
    [run] = (tmp_path / "runs").glob("2*")
    words = [*CLI, "gate", "interview", f"runs/{run.name}", "--policy", "gate.json"]
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)


def test_it_is_judged_and_allowed_by_its_levels(model: Llama, tmp_path: Path) -> None:
    # A tiny model answers within milliseconds, and of a level so short what others had of the machine is a visible part.
    for _ in range(4):
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        interview(
            tmp_path,
            f"{model.url}/v1/chat/completions",
            "openai_chat",
            "--stream",
            "--warm",
            "150",
            "--max-tokens",
            "200",
        )
        done = gated(tmp_path)
        if "can be judged" not in done.stdout:
            break
    rows: dict[str, Any] = {
        row["label"]: row for row in json.loads((tmp_path / "interview.json").read_text())["results"]
    }
    assert {label: row["n"] for label, row in rows.items()} == LEVELS
    assert {row["error_rate"] for row in rows.values()} == {0}
    if "can be judged" in done.stdout:  # the model and others had the cores: that is told, and nothing else is wrong
        refused = [line for line in done.stdout.splitlines() if line.startswith(("FAIL ", "REFUSED "))]
        assert done.returncode == 2 and all("can be judged" in line for line in refused[:-1]), done.stdout
        return
    assert "BREACH: none" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_wrong_path_of_it_is_refused_after_the_cold_call(model: Llama, tmp_path: Path) -> None:
    words = ["interview", f"{model.url}/v1/chat/complete", "--dialect", "openai_chat", "--model", "tiny", "--idle", "0"]
    done = subprocess.run(
        [*CLI, *words, "--rehearsal", "--yes"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "status 404" in done.stderr
