"""What lies beside a cutover plan, made by programs: a freeze that is read back, and queries that promtool evaluates."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from drillmaster.clock import SystemClock
from drillmaster.errors import Problem
from drillmaster.gates.cutover import FreezeProof
from drillmaster.intake.error_budget import measure
from drillmaster.intake.readback import read_back as ask_for_proof
from drillmaster.strict import digest_bytes

pytestmark = pytest.mark.e2e

SAYS = {
    "flag": "ledger-cutover",
    "frozen": True,
    "percent": 20,
    "flag_default_on": False,
    "dual_write": True,
    "old_writer": True,
}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"service": "ledger-writer"}))
    return path


def read_back(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "drillmaster", "cutover", "read-back", "--plan", "plan.json", *args]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def prints(text: str, code: int = 0) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.exit({code})"]


def test_what_was_read_is_dated_and_bound_to_the_plan(plan: Path, tmp_path: Path) -> None:
    done = read_back(tmp_path, "--", *prints(json.dumps(SAYS)))
    assert done.returncode == 0, done.stderr
    proof = msgspec.json.decode((tmp_path / "freeze-proof.json").read_bytes(), type=FreezeProof)
    assert (proof.service, proof.percent, proof.frozen) == ("ledger-writer", 20, True)
    assert proof.plan_digest == digest_bytes(plan.read_bytes())


@pytest.mark.parametrize(
    "command",
    [
        prints(""),
        prints("frozen"),
        prints(json.dumps({**SAYS, "verdict": "fine"})),
        prints(json.dumps({**SAYS, "frozen": "true"})),
        prints(json.dumps({**SAYS, "percent": 101})),
        prints(json.dumps({k: v for k, v in SAYS.items() if k != "old_writer"})),
        prints(json.dumps(SAYS) * 2),
        prints(json.dumps(SAYS), code=1),
        prints("x" * 100_000),
        [sys.executable, "-c", "while True: print('x' * 10_000)"],
        ["/no/such/program"],
        ["no-such-program"],
        ["."],
    ],
)
def test_what_is_no_answer_leaves_no_proof(command: list[str], plan: Path, tmp_path: Path) -> None:
    done = read_back(tmp_path, "--", *command)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    "program",
    [
        "import time; time.sleep(60)",
        "import os, time; os.fork() or time.sleep(60)",
        "import os, time; os.close(1); time.sleep(60)",
    ],
)
def test_a_command_that_does_not_end_is_ended_with_its_children(plan: Path, program: str) -> None:
    with pytest.raises(Problem, match="no answer within"):
        ask_for_proof(plan, [sys.executable, "-c", program], SystemClock(), limit_s=0.5)


def test_without_a_command_nothing_is_read(plan: Path, tmp_path: Path) -> None:
    assert read_back(tmp_path).returncode == 2


@pytest.mark.needs("promtool")
def test_the_queries_count_series_that_were_born_in_the_span(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(path: str) -> bytes:
        from urllib.parse import parse_qs, urlsplit

        asked.extend(parse_qs(urlsplit(path).query)["query"])
        return json.dumps({"status": "success", "data": {"result": [{"metric": {}, "value": [0, "5"]}]}}).encode()

    measure(
        ask,
        host="http://127.0.0.1:9090",
        service="ledger",
        counter="http_requests_total",
        failed='status=~"5.."',
        span_s=600,
        now_ns=1_796_054_400_000_000_000,
    )
    series = [
        ('status="200",instance="a"', "0+15x80"),  # 1 a second, all the time
        ('status="200",instance="b"', "_x60 30+15x20"),  # born five minutes ago with 30
        ('status="500",instance="a"', "_x60 1x20"),  # the first error ever
    ]
    tests = {
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [
                    {"series": f'http_requests_total{{service="ledger",{labels}}}', "values": values}
                    for labels, values in series
                ],
                "promql_expr_test": [
                    {"expr": query, "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": value}]}
                    for query, value in zip(asked, (1, 600 + 330 + 1, 1), strict=True)
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(json.dumps(tests))
    ran = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
