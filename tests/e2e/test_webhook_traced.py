"""Traces of the whole path, with a worker whose model hangs: the gate sees the store and the model, and none before a 202."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.hooklab import PATH, environ, settings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SCRIPT = Path(__file__).parent / "agents" / "traced_hook.py"
ROOT = Path(__file__).resolve().parents[2]
LIMITS = {
    "gate": "webhook-path", "accept_paths": [PATH], "accept_names": [], "statuses": [202, 400, 401, 404, 405, 408, 409, 413, 500],
    "min_accepts": 3, "min_model_spans": 3, "max_accept_ms": 2000, "store_span": True, "max_skew_ms": 100, "max_age_s": 86400,
}  # fmt: skip


@pytest.mark.parametrize(("how", "code", "said"), [("later", 0, "model-free"), ("early", 1, "called a model")])
def test_traces_show_a_store_before_each_202_and_no_model(tmp_path: Path, how: str, code: int, said: str) -> None:
    env = environ(PYTHONPATH=str(ROOT))
    spans = tmp_path / "spans.json"
    subprocess.run([sys.executable, SCRIPT, settings(tmp_path), spans, how], check=True, timeout=60, env=env)
    policy = {
        "kind": "policy",
        "version": 1,
        "source": "runbook",
        "owner": "Ada",
        "review_by": "2199-02-28",
        "gates": [LIMITS],
    }
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    command = [sys.executable, "-m", "drillmaster", "gate", "webhook-path", "spans.json", "--policy", "policy.json"]
    env = {**os.environ, "DRILLMASTER_STATE": str(tmp_path / "state")}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, said in ran.stdout) == (code, True), ran.stdout + ran.stderr
