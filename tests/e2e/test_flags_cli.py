"""The command line against a server that it started: it finds the token, and says in its exit code what came of an order."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flagslab import REGISTRY, Worker, lab, until

pytestmark = pytest.mark.e2e


def run(folder: Path, *words: str, **env: str) -> tuple[int, str, str]:
    told = subprocess.run(
        [sys.executable, "-m", "drillmaster", "flags", *words],
        cwd=folder,
        env={**os.environ, "DRILLMASTER_STATE": str(folder / "state"), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return told.returncode, told.stdout, told.stderr


@pytest.fixture
def served(short_dir: Path) -> Any:
    (short_dir / "flags.yaml").write_text(REGISTRY)
    env = {**os.environ, "DRILLMASTER_STATE": str(short_dir / "state"), "PYTHONUNBUFFERED": "1"}
    argv = [sys.executable, "-m", "drillmaster", "flags", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        argv, cwd=short_dir, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        assert url.startswith("http://127.0.0.1:")
        yield url
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors


def test_who_serves_switches_without_naming_a_token(short_dir: Path, served: str) -> None:
    worker = Worker(short_dir, {"CHAOS_URL": served})
    assert run(short_dir, "enable", "tenfold", "--for", "30s", CHAOS_URL=served)[0] == 0
    until(lambda: worker.call().get("amount") == 50, what="the wrong answer")
    code, out, _ = run(short_dir, "show", "tenfold", "--json", CHAOS_URL=served)
    assert (code, json.loads(out)["state"]) == (0, "on")
    code, out, _ = run(short_dir, "kill", "refund", "--why", "INC-1", CHAOS_URL=served)
    assert (code, out.startswith("refund is killed: held by 1 worker after 0.")) == (0, True), out
    assert worker.call()["error"] == "Killed"
    assert run(short_dir, "restore", "refund", CHAOS_URL=served)[0] == 0
    assert run(short_dir, "disable", "tenfold", CHAOS_URL=served)[0] == 0
    until(lambda: worker.call().get("amount") == 5, what="the right answer")
    assert run(short_dir, "enable", "nosuch", CHAOS_URL=served)[0] == 2
    # A worker that does not answer is named, and the exit code says that not all hold it.
    worker.process.send_signal(signal.SIGSTOP)
    code, out, _ = run(short_dir, "kill", "refund", "--wait", "500ms", CHAOS_URL=served)
    assert (code, "not held by" in out) == (1, True)
    worker.process.send_signal(signal.SIGCONT)
    until(lambda: worker.call().get("error") == "Killed", what="the kill")
    worker.close()


def test_a_token_is_asked_for_where_the_server_names_a_file_elsewhere(short_dir: Path) -> None:
    with lab(short_dir) as server:  # its token files lie beside it, and not in the state folder
        code, _, err = run(short_dir, "kill", "refund", CHAOS_URL=server.url)
        assert (code, "--token-file kill.token" in err) == (2, True)
        assert run(short_dir, "kill", "refund", "--token-file", "kill.token", CHAOS_URL=server.url)[0] == 0
        assert run(short_dir, "restore", "refund", "--token-file", "lead.token", CHAOS_URL=server.url)[0] == 2
        assert server.state("refund") == "killed"
