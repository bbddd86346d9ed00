"""`drillmaster sdk-check` in trouble: broken packages, clients that want to leave, signals, expectations nobody can hold."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from drillmaster.sdkcheck import Table
from drillmaster.sdkcheck.hosts import PROBES, clean_environment
from tests.e2e.sdklab import POLICY, STRAY, check, environment, here, hosted, read

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(500)]


@pytest.mark.parametrize(
    "act",
    [
        "socket.create_connection(('192.0.2.1', 9), 1)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
        "socket.getaddrinfo('192.0.2.1', 9)",
        "socket.gethostbyname('192.0.2.1')",
        "socket.gethostbyname_ex('192.0.2.1')",
        "socket.gethostbyaddr('192.0.2.1')",
        "socket.getnameinfo(('192.0.2.1', 9), 0)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 9))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', 0, ('192.0.2.1', 9))",
        "socket.socket().connect_ex(('192.0.2.1', 9))",
    ],
)
def test_a_client_that_wants_to_leave_loopback_is_not_let(tmp_path: Path, act: str) -> None:
    row = hosted(tmp_path, act)
    assert (row["how"], row["class"], row["left_loopback"]) == ("raised", "OSError", ["192.0.2.1"])


def test_a_call_that_does_not_return_is_waiting_and_one_that_dies_has_crashed(tmp_path: Path) -> None:
    assert hosted(tmp_path, "__import__('time').sleep(60)", kill_s=0.5)["how"] == "waiting"
    assert hosted(tmp_path, "__import__('os').abort()")["how"] == "crashed"
    assert hosted(tmp_path, "exit(3)")["class"] == "SystemExit"


LEAVING = {
    "socket": "net.connect({host: '192.0.2.1', port: 9})",
    "port, host": "new net.Socket().connect(9, '192.0.2.1')",
    "datagram": "dgram.createSocket('udp4').send('x', 9, '192.0.2.1')",
    "name": "dns.promises.lookup('192.0.2.1')",
    "resolver": "dns.resolve('192.0.2.1', (error) => { if (error) throw error; })",
    "fetch": "fetch('http://192.0.2.1:8099')",
}


@pytest.mark.needs("node")
@pytest.mark.parametrize("act", LEAVING.values(), ids=LEAVING)
def test_a_client_of_nodes_that_wants_to_leave_loopback_is_not_let(tmp_path: Path, act: str) -> None:
    (tmp_path / "host.mjs").write_bytes((PROBES / "host.mjs").read_bytes())
    (tmp_path / "clients.mjs").write_text(f"""
import net from "node:net"; import dgram from "node:dgram"; import dns from "node:dns"; import {{ once }} from "node:events";
const stray = () => ({{ client: () => null, caught: () => true, defaults: () => ({{}}), name: "stray", call: async () => {{
  const one = {act};
  if (one?.on) await once(one, "connect"); else await one;
  await new Promise(() => {{}});
}} }});
export default {{ stray }};
""")
    job = {"id": "a", "client": "stray", "calls": 1, "kill_s": 2, "warm": False}
    done = subprocess.run(
        ["node", str(tmp_path / "host.mjs"), "serve", ".", "stray"],
        input=json.dumps(job).encode() + b"\n",
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert b"192.0.2.1" in done.stdout
    row = json.loads(done.stdout.splitlines()[1])
    assert (row["how"] != "waiting", row["left_loopback"]) == (True, ["192.0.2.1"])


def under_way(tmp_path: Path, *words: str) -> subprocess.Popen[bytes]:
    """A check, from when all of its streamed cells have met their fault."""
    argv = [sys.executable, "-m", "drillmaster", "sdk-check", "--client", "anthropic", "--logs", "logs"]
    for word in words:
        argv += ["--fault", word]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    due = time.monotonic() + 60
    logs = [tmp_path / f"logs/anthropic/{name}-stream/proxy.jsonl" for name in ("rate-limit-3600-s", "hang")]
    while not all(b'"fault_met"' in read(path) for path in logs):
        assert time.monotonic() < due
        time.sleep(0.02)
    return process


def test_a_check_that_is_killed_leaves_nobody_who_sleeps_as_it_was_told(tmp_path: Path) -> None:
    """Some of its clients fail at once, as their proxies are gone, and have nobody to tell."""
    with under_way(tmp_path, "rate-limit", "hang") as process:
        process.kill()
    gone = time.monotonic() + 10
    while (left := here(tmp_path)) and time.monotonic() < gone:
        time.sleep(0.1)
    assert not left


def test_a_client_whose_host_is_killed_is_ended_by_the_kernel(tmp_path: Path) -> None:
    """And one that never comes back from its import, whoever is left to wait for it."""
    source = (PROBES / "host.py").read_text().replace("CHILD_GRACE_S = 30", "CHILD_GRACE_S = 0")
    (tmp_path / "host.py").write_text(source.replace("IMPORT_S = 130", "IMPORT_S = 2"))
    (tmp_path / "clients.py").write_text(STRAY.replace("ACT", "__import__('time').sleep(60)"))
    pipe = subprocess.PIPE
    argv = [sys.executable, "host.py", "serve", "stray"]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=pipe, stdout=pipe) as host:
        assert host.stdin is not None and host.stdout is not None
        host.stdout.readline()
        job = {"id": "a", "client": "stray", "calls": 1, "kill_s": 1, "warm": False}
        host.stdin.write(json.dumps(job).encode() + b"\n")
        host.stdin.flush()
        due = time.monotonic() + 20
        while len(here(tmp_path)) < 2:
            assert time.monotonic() < due
        host.kill()
    assert here(tmp_path)
    while here(tmp_path):
        assert time.monotonic() < due
        time.sleep(0.05)
    (tmp_path / "clients.py").write_text("import time\nPROBES = {'stray': lambda: time.sleep(60)}")
    with subprocess.Popen(argv, cwd=tmp_path, stdin=pipe, stdout=pipe) as host:
        assert host.wait(20) == -signal.SIGALRM


def test_a_check_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    argv = ["nohup", sys.executable, "-m", "drillmaster", "sdk-check", "--client", "httpx2", "--fault", "hang"]
    pipe, logs = subprocess.PIPE, tmp_path / "logs"
    with subprocess.Popen([*argv, "--logs", "logs"], cwd=tmp_path, stdout=pipe, stderr=pipe) as process:
        due = time.monotonic() + 60
        while b'"fault_met"' not in read(logs / "httpx2/hang-whole/proxy.jsonl"):
            assert time.monotonic() < due
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_host_whose_reader_is_gone_takes_its_clients_with_it(tmp_path: Path) -> None:
    (tmp_path / "host.py").write_bytes((PROBES / "host.py").read_bytes())
    act = "job['calls'] == 1 and __import__('time').sleep(60)"
    (tmp_path / "clients.py").write_text(STRAY.replace("ACT", act))
    pipe = subprocess.PIPE
    argv = [sys.executable, "host.py", "serve", "stray"]
    with subprocess.Popen(argv, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as host:
        assert host.stdin is not None and host.stdout is not None
        host.stdout.readline()
        host.stdout.close()
        for calls in (1, 2):  # one that sleeps, and one that has something to tell
            job = {"id": "a", "client": "stray", "calls": calls, "kill_s": 50, "warm": False}
            host.stdin.write(json.dumps(job).encode() + b"\n")
            host.stdin.flush()
        assert host.wait(10) != 0
    gone = time.monotonic() + 10
    while (left := here(tmp_path)) and time.monotonic() < gone:
        time.sleep(0.05)
    assert not left


def test_ctrl_c_is_for_the_check_and_no_clients_error(tmp_path: Path) -> None:
    """A terminal sends it to all processes of the group: clients are in none of ours."""
    with under_way(tmp_path, "rate-limit", "hang") as process:
        clients = {int(path.parent.name) for path in here(tmp_path)} - {process.pid}
        assert clients
        assert process.pid not in {os.getpgid(pid) for pid in clients}
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 3
    assert not here(tmp_path)


GOOD_REQUESTS = """
import json, urllib.request
class RequestException(Exception): pass
class Answer:
    def __init__(self, body): self.body = body
    def raise_for_status(self): pass
    def json(self): return json.loads(self.body)
    def iter_lines(self): return self.body.splitlines()
class Session:
    headers = {}
    def post(self, url, json, timeout, stream):
        data = globals()["json"].dumps(json).encode()
        asked = urllib.request.Request(url, data, {"content-type": "application/json"})
        try: return Answer(urllib.request.urlopen(asked, timeout=timeout).read())
        except OSError as error: raise RequestException(error)
"""
BROKEN = {
    "openai": "import sys; print('on stdout', flush=True); sys.exit(3)",
    "anthropic": "raise ImportError('no such\\n\\x1b[31mthing')",
    "groq": "import os; os.write(1, b'x' * 100_000); os._exit(9)",
    "httpx": "import socket; socket.create_connection(('192.0.2.1', 9))",
    "aiohttp": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
}


def test_broken_packages_are_said_to_be_and_the_others_are_measured(tmp_path: Path) -> None:
    python = environment(tmp_path / "an environment", **BROKEN, requests=GOOD_REQUESTS)
    site = next((tmp_path / "an environment").glob("lib/python*/site-packages"))
    (site / "loud.pth").write_text("import sys; sys.stdout.write('said before a host can help it')\n")
    (tmp_path / "e.yaml").write_text(POLICY + "  - {client: '*', fault: '503', outcome: [raised]}\n")
    argv = ("--python", str(python), "--fault", "503", "--logs", "logs", "--json", "table.json", "--expect", "e.yaml")
    found = check(tmp_path, *argv)
    assert "openai, all: SystemExit: 3" in found.stderr and found.returncode == 2  # not measured is not passed
    table = msgspec.json.decode((tmp_path / "table.json").read_bytes(), type=Table)
    assert {(row.client, row.outcome) for row in table.results} == {("requests", "raised")}
    whys = {entry.client: entry.why for entry in table.not_run if entry.failed}
    assert whys.keys() == {"openai", "openai-responses", "anthropic", "anthropic-helper", "groq", "httpx", "aiohttp"}
    assert "192.0.2.1" in whys["httpx"]
    assert (set(whys["groq"]), whys["aiohttp"]) == ({"x"}, "its process ended")
    assert "\x1b" not in found.stdout + found.stderr


@pytest.mark.parametrize("named", ["", "bin", "bin/python"])
def test_an_environment_may_be_named_by_its_folder(tmp_path: Path, named: str) -> None:
    environment(tmp_path / "an environment", requests="")
    found = check(tmp_path, "--python", str(tmp_path / "an environment" / named), "--list", "--json", "-")
    assert found.returncode == 0, found.stderr
    assert [(row["name"], row["version"]) for row in json.loads(found.stdout)] == [("requests", "9.9")]
    found = check(tmp_path, "--python", ".", "--list")
    assert (found.returncode, "a folder without bin/python" in found.stderr) == (2, True)


def test_standard_output_holds_one_document_whatever_the_expectations_say(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(POLICY + "  - {client: nobody, fault: '503', outcome: [raised]}\n")
    argv = ("--client", "httpx2", "--fault", "503", "--json", "-", "--expect", "e.yaml")
    found = check(tmp_path, *argv)
    assert (found.returncode, json.loads(found.stdout)["kind"]) == (2, "sdk-check")
    assert "no measured cell that it chooses" in found.stderr


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("max_worst_s: -1", "expect[0].max_worst_s: found -1, wanted 0 or more"),
        ("max_attempts: -1", "expect[0].max_attempts: found -1, wanted 0 or more"),
        ("outcome: []", "found no limit"),
        ("falback: true", "Did you mean fallback?"),
    ],
)
def test_an_expectation_that_cannot_be_meant_is_refused_before_a_minute_of_measuring(
    tmp_path: Path, rule: str, said: str
) -> None:
    (tmp_path / "e.yaml").write_text(POLICY + f"  - {{client: httpx2, fault: '503', {rule}}}\n")
    found = check(tmp_path, "--expect", "e.yaml", "--logs", "logs")
    assert (found.returncode, said in found.stderr) == (2, True), found.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--json", "."), "found a folder, wanted a file"),
        (("--html", "nowhere/page.html"), "found no such folder"),
        (("--fault", "mcp-hang"), "every client: a fault of the tool protocol"),
        (("--fault", "nope"), "fault list"),
        (("--client", "nobody"), "one that is installed"),
    ],
)
def test_what_cannot_be_measured_is_said_with_its_reason(tmp_path: Path, argv: tuple[str, ...], said: str) -> None:
    found = check(tmp_path, *argv, "--client", "httpx2") if argv[0] != "--client" else check(tmp_path, *argv)
    assert (found.returncode, said in found.stderr) == (2, True), found.stderr


def test_a_watch_that_is_shorter_than_three_attempts_is_refused(tmp_path: Path) -> None:
    found = check(tmp_path, "--limit-s", "3", "--watch-s", "6.5", "--logs", "logs")
    assert (found.returncode, "wanted 10 or more" in found.stderr) == (2, True), found.stderr
    found = check(
        tmp_path, "--client", "openai", "--fault", "hang", "--limit-s", "3", "--logs", "logs", "--json", "t.json"
    )
    table = msgspec.json.decode((tmp_path / "t.json").read_bytes(), type=Table)
    assert {(row.outcome, 1800 < (row.worst_s or 0) < 1810) for row in table.results} == {("raised", True)}


def test_no_key_or_proxy_of_the_projects_env_file_reaches_litellm() -> None:
    assert clean_environment(Path("/nowhere"))["LITELLM_MODE"] == "PRODUCTION"  # else it loads the .env above it
