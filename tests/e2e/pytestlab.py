"""Runs of pytest with the plugin, each in a process of its own."""

import os
import textwrap
import time
from pathlib import Path

import pytest

__all__ = ["Run", "gone", "reasons"]

HEAD = """
import http.client, json, os, socket, threading, time
import pytest

HELLO = [{"role": "user", "content": "hello"}]

def ask(url, path="/v1/chat/completions", model="m", within_s=5.0, key="k", **more):
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=within_s)
    try:
        call = {"model": model, "messages": HELLO, **more}
        connection.request("POST", path, json.dumps(call), {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
"""


class Run:
    """Runs a file of tests; `HEAD` stands in front of it."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester = pytester
        for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
            monkeypatch.delenv(name)

    def __call__(self, text: str, *argv: str, ini: str = "") -> pytest.RunResult:
        self._pytester.makepyfile(test_agent=HEAD + textwrap.dedent(text))
        self._pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider --strict-markers\n{ini}")
        return self._pytester.runpytest_subprocess("-rA", *argv, timeout=90)


def reasons(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether that process has ended."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
