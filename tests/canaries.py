"""The article's policy and metrics, and the canary gate as the command line runs it."""

import json
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from drillmaster.cli import main

__all__ = ["FAILING", "NOW", "PASSING", "POLICY", "judge"]

POLICY = {
    "min_requests": 5000,
    "max_error_rate": 0.002,
    "max_p95_ms": 180,
    "max_slo_burn": 1.0,
    "min_healthy_hosts": 2,
    "required_window_seconds": 600,
}
PASSING = {
    "requests": 8200,
    "errors": 6,
    "p95_ms": 142,
    "slo_burn": 0.4,
    "healthy_hosts": 3,
    "window_seconds": 900,
    "source": "prometheus",
    "collected_at": "2026-09-18T02:30:00Z",
}
FAILING = PASSING | {
    "requests": 1800,
    "errors": 9,
    "p95_ms": 210,
    "slo_burn": 1.4,
    "healthy_hosts": 2,
    "window_seconds": 240,
    "collected_at": "2026-09-18T02:14:00Z",
}
NOW = "2026-11-30T16:00:00Z"


def judge(
    folder: Path, metrics: Any, policy: Any = POLICY, *more: str, now: str = NOW, named: bool = True
) -> tuple[int, str, str]:
    """Judge by the command line; give its exit code, stdout and stderr. What is `...` lies there already.

    `named` False: `more` names the metrics.
    """
    for name, said in (("metrics.json", metrics), ("policy.json", policy)):
        if said is ...:
            continue
        raw = said if isinstance(said, bytes) else said.encode() if isinstance(said, str) else json.dumps(said).encode()
        (folder / name).write_bytes(raw)
    words = [
        "gate",
        "canary",
        *([str(folder / "metrics.json")] if named else []),
        "--policy",
        str(folder / "policy.json"),
    ]
    words += ["--now", now, "--attempts", str(folder / "attempts.jsonl"), *more]

    @click.command(context_settings={"ignore_unknown_options": True})
    def whole() -> None:
        main(argv=words)

    result = CliRunner().invoke(whole)
    return result.exit_code, result.stdout, result.stderr
