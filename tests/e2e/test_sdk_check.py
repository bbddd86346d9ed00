"""`drillmaster sdk-check` with the clients that the project's own environment has, over real sockets and processes."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from drillmaster.sdkcheck import Table
from drillmaster.sdkcheck.checking import check as measure
from drillmaster.sdkcheck.checking import installed

pytestmark = pytest.mark.e2e

POLICY = """
kind: sdk-expectations
source: docs/runbooks/clients.md
owner: platform team
review_by: "2099-01-01"
expect:
"""


def check(tmp_path: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", "sdk-check", *argv],
        cwd=tmp_path,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def rows(found: subprocess.CompletedProcess[str]) -> dict[tuple[str, str, bool], dict[str, Any]]:
    assert found.returncode == 0, found.stderr
    table = json.loads(found.stdout)
    return {(row["client"], row["label"], row["stream"]): row for row in table["results"]}


def test_measured_facts_of_two_sdks_are_found_again(tmp_path: Path) -> None:
    """Classes and attempts as they were measured with openai 3.57 and anthropic 2.14."""
    tags = ("503", "reset", "clean-end", "reset-stream", "overloaded", "refused")
    argv = [word for tag in tags for word in ("--fault", tag)]
    clients = ("--client", "openai", "--client", "anthropic")
    trap = "http://192.0.2.1:1"  # nobody lives there: a client that heard of it would fail
    found = rows(
        check(tmp_path, *clients, *argv, "--json", "-", OPENAI_BASE_URL=trap, HTTP_PROXY=trap, ANTHROPIC_BASE_URL=trap)
    )

    def said(client: str, label: str, stream: bool) -> tuple[Any, ...]:
        row = found[client, label, stream]
        return row["outcome"], row["what"], row["attempts"], row["fallback"]

    assert said("openai", "503", False) == ("raised", "openai.InternalServerError", 3, True)
    assert said("anthropic", "503", False) == ("raised", "anthropic.ServiceUnavailableError", 3, True)
    assert said("anthropic", "overloaded", False) == ("raised", "anthropic.OverloadedError", 3, True)
    assert said("openai", "reset", False) == ("raised", "openai.APIConnectionError", 3, True)
    assert said("anthropic", "reset", True) == ("raised", "anthropic.APIConnectionError", 3, True)
    assert said("openai", "refused", False) == ("raised", "openai.APIConnectionError", None, True)
    # No SDK retries after the first byte; anthropic lets the transport's own error through.
    assert said("openai", "reset-stream", True) == ("raised", "openai.APIConnectionError", 1, True)
    assert said("anthropic", "reset-stream", True) == ("raised", "httpx2.ReadError", 1, False)
    assert said("anthropic-helper", "reset-stream", True) == ("raised", "httpx2.ReadError", 1, False)
    for client in ("openai", "openai-responses", "anthropic", "anthropic-helper"):
        assert said(client, "clean-end", True)[0] == "fooled"
        assert said(client, "clean-end", True)[2:] == (1, False)
    assert found["openai", "clean-end", False]["outcome"] == "not-met"
    folder = next((tmp_path / "runs").iterdir())
    for row in found.values():
        log = folder / row["log"]
        assert b"proxy_started" in (log / "proxy.jsonl").read_bytes()
        assert json.loads((log / "client.json").read_bytes())["how"] in ("raised", "returned")


def test_a_limit_that_holds_until_the_watch_ends_is_waiting_and_its_worst_case_is_computed(tmp_path: Path) -> None:
    argv = ("--client", "anthropic", "--fault", "rate-limit", "--watch-s", "4", "--json", "-")
    found = rows(check(tmp_path, *argv))
    assert found["anthropic", "rate-limit retry_after_s=3600", False]["outcome"] == "waiting"
    assert found["anthropic", "rate-limit retry_after_s=3600", False]["worst_s"] == 7200


def test_exit_codes_follow_the_expectations(tmp_path: Path) -> None:
    rules = tmp_path / "expect.yaml"
    argv = ("--client", "openai", "--fault", "503", "--fault", "clean-end", "--expect", str(rules))
    rules.write_text(POLICY + "  - {client: openai, fault: clean-end, outcome: [raised]}\n")
    found = check(tmp_path, *argv, "--logs", "one")
    assert found.returncode == 1, found.stderr
    assert "BROKEN: openai, clean-end, streamed: LOOKED LIKE SUCCESS" in found.stdout
    rules.write_text(POLICY + "  - {client: openai, fault: '503', fallback: true, max_attempts: 3}\n")
    found = check(tmp_path, *argv, "--logs", "two", "--html", "page.html", "--markdown", "page.md")
    assert found.returncode == 0, found.stderr + found.stdout
    assert "PASS 1 expectations hold" in found.stdout
    assert 'href="two/openai/503-whole/proxy.jsonl"' in (tmp_path / "page.html").read_text()
    rules.write_text(POLICY + "  - {client: groq, fault: '503', fallback: true}\n")
    found = check(tmp_path, *argv, "--logs", "three", "--compare", "two/table.json")
    assert found.returncode == 2
    assert "no measured cell that it chooses" in found.stderr
    assert "nothing changed" in found.stdout


def test_an_interpreter_without_clients_is_refused_with_the_remedy(tmp_path: Path) -> None:
    found = check(tmp_path, "--python", "/usr/bin/false")
    assert found.returncode == 2
    assert "--python" in found.stderr
    assert not (tmp_path / "runs").exists()


def test_a_client_that_wants_to_leave_loopback_is_not_let(tmp_path: Path) -> None:
    host = Path(__file__).parents[2] / "src/drillmaster/sdkcheck/probes/_host.py"
    probe = tmp_path / "probe_stray.py"
    probe.write_text(
        "import socket\ncaught = (ValueError,)\n"
        "def defaults(): return {}\n"
        "def client(job): return None\n"
        "def call(one, job): socket.create_connection(('192.0.2.1', 9), 1)\n"
    )
    job = {"id": "a", "calls": 1, "kill_s": 5, "warm": False}
    with subprocess.Popen(
        [sys.executable, str(host), "serve", str(probe)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"] is True
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
        row = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(10) == 0
    assert (row["how"], row["class"], row["left_loopback"]) == ("raised", "OSError", ["192.0.2.1"])


@pytest.mark.needs("node")
def test_nodes_own_fetch_is_checked_where_node_is(tmp_path: Path) -> None:
    argv = ("--node", str(tmp_path), "--client", "node-fetch", "--fault", "503", "--fault", "clean-end", "--json", "-")
    found = rows(check(tmp_path, *argv))
    assert found["node-fetch", "503", False]["what"] == "fetch.Error"
    assert found["node-fetch", "clean-end", True]["outcome"] == "fooled"


def test_a_cell_that_a_busy_machine_may_have_spoilt_is_measured_again(tmp_path: Path) -> None:
    async def busy() -> Table:
        version, clients = await installed(sys.executable, None)
        task = asyncio.create_task(
            measure(
                version,
                clients,
                ["httpx2"],
                ["hang"],
                python=sys.executable,
                node=None,
                logs=tmp_path / "logs",
                limit_s=1.0,
                watch_s=10.0,
                lanes=4,
                on=lambda done, every: None,
            )
        )
        while not (tmp_path / "logs/httpx2/hang-whole").exists():
            await asyncio.sleep(0.02)
        time.sleep(0.8)  # the bench is late, as on a machine that does something else
        return await task

    whole = next(row for row in asyncio.run(busy()).results if not row.stream)
    assert whole.log == "httpx2/hang-whole-again"
    assert (whole.outcome, whole.what, whole.attempts) == ("raised", "httpx2.ReadTimeout", 1)
    assert (tmp_path / "logs" / whole.log / "proxy.jsonl").exists()
