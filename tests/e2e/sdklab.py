"""`drillmaster sdk-check` as people call it, environments made for it, and a host with a client that does as a test says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from drillmaster.sdkcheck.hosts import PROBES

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
        timeout=400,
        check=False,
    )


def rows(found: subprocess.CompletedProcess[str]) -> dict[tuple[str, str, bool], dict[str, Any]]:
    assert found.returncode == 0, found.stderr
    table = json.loads(found.stdout)
    return {(row["client"], row["label"], row["stream"]): row for row in table["results"]}


STRAY = """
import socket
class Stray:
    caught = (ValueError,)
    def defaults(self): return {}
    def client(self, job): return None
    def call(self, one, job): ACT
PROBES = {"stray": Stray}
"""


def hosted(tmp_path: Path, act: str, kill_s: float = 5) -> dict[str, Any]:
    """What a host says of a client that does this when it is called."""
    (tmp_path / "host.py").write_bytes((PROBES / "host.py").read_bytes())
    (tmp_path / "clients.py").write_text(STRAY.replace("ACT", act))
    job = {"id": "a", "client": "stray", "calls": 1, "kill_s": kill_s, "warm": False}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "host.py"), "serve", "stray"], stdin=pipe, stdout=pipe
    ) as host:
        assert host.stdin is not None and host.stdout is not None
        assert json.loads(host.stdout.readline()) == {"client": "stray", "defaults": {}}
        host.stdin.write(json.dumps(job).encode() + b"\n")
        host.stdin.flush()
        row: dict[str, Any] = json.loads(host.stdout.readline())
        host.stdin.close()
        assert host.wait(10) == 0
    return row


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def here(folder: Path) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cwd") if cwd_of(path) == folder]


def cwd_of(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None  # it has ended, or is somebody else's


def environment(folder: Path, **packages: str) -> Path:
    """An environment without pip, whose packages are these sources; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    site = next(folder.glob("lib/python*/site-packages"))
    for name, source in packages.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(source)
        (site / f"{name}-9.9.dist-info").mkdir()
        (site / f"{name}-9.9.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    return folder / "bin" / "python"
