"""A target that is not loopback: in a network namespace of the test's own, with permission and without."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.drills import AGENT, Drill, drilling, free_ports, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90), pytest.mark.needs("ip")]

NEAR, FAR = "10.213.8.1", "10.213.8.2"
PERMIT: dict[str, Any] = {"host": FAR, "owner": "Ada", "until": "2199-01-01", "max_per_s": 50, "max_requests": 1_000}


@pytest.fixture
def namespace() -> Iterator[list[str]]:
    """Lend the words that run a command in a network namespace of its own, which has one address and one way here."""
    ip = shutil.which("ip") or "/usr/sbin/ip"
    name, near, far = f"dmp{os.getpid()}", f"w{os.getpid()}a"[:15], f"w{os.getpid()}b"[:15]
    made = subprocess.run([ip, "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"needs the right to make a network namespace: {made.stderr.strip()}")
    try:
        for argv in (
            ["link", "add", near, "type", "veth", "peer", "name", far, "netns", name],
            ["addr", "add", f"{NEAR}/24", "dev", near],
            ["link", "set", near, "up"],
            ["-n", name, "addr", "add", f"{FAR}/24", "dev", far],
            ["-n", name, "link", "set", far, "up"],
        ):
            subprocess.run([ip, *argv], check=True, capture_output=True)
        yield [ip, "netns", "exec", name]
    finally:
        subprocess.run([ip, "link", "del", near], capture_output=True)
        subprocess.run([ip, "netns", "del", name], capture_output=True)


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    yield from drilling(tmp_path)


def far_away(drill: Drill, namespace: list[str]) -> dict[str, Any]:
    """Start the agent in the namespace, led to a proxy that listens for it; the parts of a plan for that."""
    (drill.folder / "agent.py").write_text(AGENT.replace('S(("127.0.0.1", port)', f'S(("{FAR}", port)'))
    env = {**drill.env, "MODEL_BASE_URL": f"http://{NEAR}:{drill.proxy_port}"}
    drill.processes.append(
        subprocess.Popen([*namespace, *drill.agent()], cwd=drill.folder, env=env, stdout=subprocess.DEVNULL, text=True)
    )

    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((FAR, drill.agent_port), timeout=1):
            return True
        return False

    wait_until(listens, what="the agent in its namespace")
    return {
        "url": f"http://{FAR}:{drill.agent_port}/answer?q={{payload}}",
        "payloads": ["one?", "two?"],
        "expect": {"pointer": "/text", "min_chars": 5},
    }


def asked_for(drill: Drill, target: dict[str, Any], *flags: str) -> "subprocess.CompletedProcess[str]":
    upstream = f"http://127.0.0.1:{drill.upstream_port}"
    drill.plan(kind=None, target=target, proxy={"listen": f"{NEAR}:{drill.proxy_port}", "upstream": upstream})
    return drill.run("--rehearsal", *flags)


@pytest.mark.parametrize(
    ("permit", "flags", "word"),
    [
        (None, [], "permit"),
        (None, ["--permit-host", FAR], "permit"),  # the flag is no permission, and the plan alone is none
        (PERMIT, [], f"--permit-host {FAR}"),
        (PERMIT, ["--permit-host", "10.213.8.3"], f"--permit-host {FAR}"),
        (PERMIT | {"host": "10.213.8.3"}, ["--permit-host", FAR], "/target/permit"),
        (PERMIT | {"until": "2026-01-01"}, ["--permit-host", FAR], "/target/permit/until"),
        (PERMIT | {"max_per_s": 1}, ["--permit-host", FAR], "/target/permit/max_per_s"),
        (PERMIT | {"max_requests": 10}, ["--permit-host", FAR], "/target/permit/max_requests"),
    ],
)
def test_a_host_that_is_not_loopback_is_not_asked_once_without_permission(
    drill: Drill, permit: dict[str, Any] | None, flags: list[str], word: str
) -> None:
    # Nothing is there, and it need not be: it is refused before a packet leaves.
    target = {"url": f"http://{FAR}:{drill.agent_port}/", **({"permit": permit} if permit else {})}
    upstream = f"http://127.0.0.1:{drill.upstream_port}"
    drill.plan(kind=None, target=target, proxy={"listen": f"127.0.0.1:{drill.proxy_port}", "upstream": upstream})
    done = drill.run("--rehearsal", *flags)
    assert done.returncode == 2 and word in done.stderr.splitlines()[-1], done.stderr
    assert not (drill.folder / "runs").exists()


def test_a_permitted_host_is_drilled_under_its_caps_and_the_permission_is_on_record(
    drill: Drill, namespace: list[str]
) -> None:
    target = far_away(drill, namespace) | {"permit": PERMIT}
    done = asked_for(drill, target, "--permit-host", FAR)
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = (drill.run_dir / "manifest.json").read_text()
    assert f'"owner": "{PERMIT["owner"]}"' in manifest and f'"host": "{FAR}"' in manifest
    assert drill.events("events/proxy.jsonl", "fault_injected")


class Elsewhere:
    """An agent of loopback that sends everybody on, and counts who came."""

    def __init__(self, location: str) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked = 0
        self._answer = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                with sock, contextlib.suppress(OSError):
                    sock.recv(65_536)
                    self.asked += 1
                    sock.sendall(self._answer.encode())


def test_a_target_that_sends_everybody_outside_is_not_followed(drill: Drill, namespace: list[str]) -> None:
    (outside,) = free_ports(1)
    code = (
        "import socket, sys\n"
        "s = socket.create_server((sys.argv[1], int(sys.argv[2])))\n"
        "print('up', flush=True)\n"
        "while True:\n    s.accept()[0].close()\n    print('somebody', flush=True)\n"
    )
    watcher = subprocess.Popen(
        [*namespace, sys.executable, "-c", code, FAR, str(outside)], stdout=subprocess.PIPE, text=True
    )
    drill.processes.append(watcher)
    assert watcher.stdout is not None and watcher.stdout.readline() == "up\n"
    agent = Elsewhere(f"http://{FAR}:{outside}/answer")
    upstream = f"http://127.0.0.1:{drill.upstream_port}"
    proxy = {"listen": f"127.0.0.1:{drill.proxy_port}", "upstream": upstream}
    drill.plan(kind=None, target={"url": f"http://127.0.0.1:{agent.port}/answer"}, proxy=proxy)
    done = drill.run("--rehearsal")
    agent.listener.close()
    assert done.returncode == 2 and "target_answers" in done.stderr.splitlines()[-1], done.stderr
    assert "302" in done.stderr.splitlines()[-1] and agent.asked > 0
    watcher.kill()
    assert watcher.stdout.read() == "", "somebody followed it outside"
