"""A guards file, its store and a `guard serve` of our own, for tests over real sockets."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.stores.opening import open_store

__all__ = ["QUOTA", "RETRY", "WEBHOOK", "Served", "prepared", "served", "write_guards"]

QUOTA = {
    "guard": "quota",
    "partner": "ledger",
    "identity": "acct-7",
    "window_ms": 600_000,
    "max_per_window": 1_000,
    "burst": 5,
}
RETRY = {
    "guard": "retry",
    "max_calls": 3,
    "deadline_ms": 30_000,
    "base_ms": 200,
    "cap_ms": 5_000,
    "budget_tokens": 1_000_000,
    "refund": 0.1,
}
WEBHOOK = {"guard": "webhook", "scheme": "github", "max_body_bytes": 1_000, "read_within_ms": 1_000}
"""It counts nothing, and asks no store."""
CLI = [sys.executable, "-m", "drillmaster"]


def write_guards(path: Path, *guards: dict[str, Any], **change: Any) -> Path:
    """Write a guards file; without guards one of quota, retry and webhook."""
    file = {
        "kind": "guards",
        "version": 1,
        "source": "contract-2026-ledger",
        "owner": "payments-oncall",
        "reviewers": ["platform"],
        "review_by": "2099-02-28",
        "guards": list(guards or (QUOTA, RETRY, WEBHOOK)),
    }
    path.write_bytes(msgspec.json.encode({**file, **change}))
    return path


def prepared(folder: Path) -> str:
    """Make a store in a file; its URL."""
    url = f"sqlite:{folder / 'store.db'}"
    with contextlib.closing(open_store(url)) as opened:
        opened.prepare()
    return url


class Served:
    """One server: its process, its address, and a plain client."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address
        self.port = 0 if address.startswith("unix:") else int(address.rpartition(":")[2])

    def ask(
        self, name: str, facts: object, *, method: str = "POST", token: str = "", timeout_s: float = 10
    ) -> tuple[int, Any]:
        """Put one question on a connection of its own; status and body."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)) as client:
            fields = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
            body = None if method == "GET" else json.dumps(facts)
            client.request(method, name if name.startswith("/") else f"/v1/{name}", body=body, headers=fields)
            answer = client.getresponse()
            data = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(data) if is_json else data.decode()

    def said(self) -> str:
        """Read a line of its stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()


@contextlib.contextmanager
def served(
    folder: Path, *words: str, store: str | None = None, listen: str = "127.0.0.1:0", env: dict[str, str] | None = None
) -> Iterator[Served]:
    """Start a server on `guards.json` of a folder; `store` None: a file there, prepared; "": none is named."""
    guards = folder / "guards.json"
    if not guards.exists():
        write_guards(guards)
    if store is None:
        store = prepared(folder)
    process = subprocess.Popen(
        [
            *CLI,
            "guard",
            "serve",
            "--guards",
            str(guards),
            "--listen",
            listen,
            *(["--store", store] if store else []),
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **(env or {})},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "listening on " in line, (line, process.stderr and process.stderr.read())
        yield Served(process, line.split()[-1])
    finally:
        process.kill()
        process.communicate()
