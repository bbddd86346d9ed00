"""The webhook-path gate on traces of a real server, database and model client, instrumented by OpenTelemetry's own packages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.webhook_path import LIMITS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

TERMINATOR = Path(__file__).parent / "agents" / "traced_terminator.py"


def traced(folder: Path, how: str, form: str) -> Path:
    out = folder / "spans.json"
    env = {**os.environ, "OTEL_SEMCONV_STABILITY_OPT_IN": "http,database"} if form == "otlp" else None
    subprocess.run([sys.executable, str(TERMINATOR), how, form, str(out)], check=True, timeout=60, env=env)
    return out


def gate(folder: Path, *words: str, **more: Any) -> tuple[int, str]:
    told = {
        "kind": "policy",
        "version": 1,
        "source": "webhook-runbook",
        "owner": "Ada",
        "review_by": "2199-02-28",
        "gates": [{**msgspec.to_builtins(LIMITS), "min_accepts": 3, **more}],
    }
    (folder / "policy.json").write_text(json.dumps(told))
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "webhook-path", *words, "--policy", "policy.json"],
        cwd=folder,
        env={**os.environ, "DRILLMASTER_STATE": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("form", ["otlp", "console"])
@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("worker", 0, "accept path stayed model-free"),
        ("link", 0, "accept path stayed model-free"),
        ("first", 1, "accept path called a model"),
        ("inside", 2, "the process that accepts asked no model meanwhile"),
    ],
)
def test_a_real_accept_path_is_told_from_one_that_asks_a_model(
    tmp_path: Path, how: str, code: int, said: str, form: str
) -> None:
    out = traced(tmp_path, how, form)
    found, told = gate(tmp_path, out.name)
    assert (found, said in told) == (code, True), told
    assert "summarise" not in told and "invoice paid" not in told


def test_our_own_terminator_asks_no_model_and_answers_by_its_table(tmp_path: Path) -> None:
    out = tmp_path / "spans.json"
    subprocess.run([sys.executable, str(TERMINATOR.with_name("traced_of_ours.py")), str(out)], check=True, timeout=60)
    # Its threads write to the inbox, which no instrumentation here sees.
    code, said = gate(tmp_path, out.name, min_accepts=2, min_model_spans=0, store_span=False)
    assert code == 0, said
    assert "3 accepts, 2 of them with 202" in said and "STORE NOT TRACED" in said


def test_a_worker_that_is_not_traced_leaves_nothing_to_see_and_is_refused(tmp_path: Path) -> None:
    out = traced(tmp_path, "worker", "otlp")
    kept = [line for line in out.read_text().splitlines() if "gen_ai" not in line]
    out.write_text("\n".join(kept))
    code, said = gate(tmp_path, out.name)
    assert code == 2 and "so that one would be seen" in said


def test_the_articles_own_check_is_green_where_ours_is_not(tmp_path: Path) -> None:
    """The script looks for llm.complete in the text: in an empty file, and in spans of today's names, it finds none."""
    for text in (None, "", '{"resourceSpans": []}'):
        path = tmp_path / "spans.json"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        code, said = gate(tmp_path, path.name)
        assert code == 2 and "model-free" not in said
    out = traced(tmp_path, "first", "otlp")
    assert "llm.complete" not in out.read_text()
    assert gate(tmp_path, out.name)[0] == 1


def test_no_file_at_all_is_wrong_usage(tmp_path: Path) -> None:
    code, said = gate(tmp_path)
    assert code == 2 and "drillmaster gate webhook-path spans.json" in said
