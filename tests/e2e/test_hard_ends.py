"""A drill whose own house is taken apart while it goes on: it lifts, seals what there is, and says with 3 that it was stopped."""

import contextlib
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.drills import Drill, alive, connects, drilling, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]
LONG = {"baseline_s": 1, "fault_s": 60, "recovery_s": 5}


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    yield from drilling(tmp_path)


def _stopped(drill: Drill, process: "subprocess.Popen[str]", word: str) -> None:
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3, out + err
    assert word in out + err and "Traceback" not in err, out + err
    wait_until(lambda: drill.own_processes() == [], 8, "nothing left running")
    assert not connects(drill.proxy_port) and not connects(drill.agent_port)


def _other_file(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "deed", "word"),
    [
        ("events/traffic.jsonl", Path.unlink, "taken away"),
        ("events/proxy.jsonl", _other_file, "another file"),
        ("timeline.jsonl", _fifo, "no regular file"),
        ("events/conductor.jsonl", lambda path: os.truncate(path, 10), "was cut"),
    ],
)
def test_evidence_that_is_taken_away_in_mid_drill_stops_it(
    drill: Drill, name: str, deed: Callable[[Path], object], word: str
) -> None:
    drill.plan(phases=LONG)
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    deed(drill.run_dir / name)
    _stopped(drill, process, word)
    assert (drill.run_dir / "seal.json").exists()
    if name == "timeline.jsonl":
        assert name not in json.loads((drill.run_dir / "seal.json").read_text())["files"]


def test_what_stopped_a_drill_is_said_beside_what_kept_it_from_being_sealed(drill: Drill) -> None:
    drill.plan(phases=LONG)
    process = drill.start("--rehearsal", "--json")
    drill.wait_for("phase_started", phase="baseline")
    odd = drill.run_dir / "events" / "a\nb.jsonl"
    odd.write_text("{}\n")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3 and "Traceback" not in err, out + err
    why = json.loads(out)["why"]
    assert "somebody ended the drill" in why and "could not be sealed" in why and "move that file" in why
    odd.unlink()
    assert drill.verb("seal", str(drill.run_dir)).returncode == 0
    assert drill.verb("verify", str(drill.run_dir)).returncode == 0


def test_a_seal_that_somebody_makes_too_early_is_no_seal_of_the_run(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 2, "recovery_s": 1.5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    early = (
        "import sys, pathlib; from drillmaster.clock import SystemClock; from drillmaster.timeline import seal_run; "
    )
    early += "seal_run(pathlib.Path(sys.argv[1]), SystemClock())"
    subprocess.run([sys.executable, "-c", early, str(drill.run_dir)], check=True, timeout=20)
    _stopped(drill, process, "seal")


@pytest.mark.parametrize("phase", ["baseline", "recovery"])
def test_a_conductor_that_was_stopped_for_a_while_blames_no_agent(drill: Drill, phase: str) -> None:
    drill.plan(phases={"baseline_s": 8 if phase == "baseline" else 1, "fault_s": 1.2, "recovery_s": 8})
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase=phase)
    time.sleep(0.4)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    process.send_signal(signal.SIGCONT)
    _stopped(drill, process, "held up")


def test_a_killed_keeper_takes_all_it_kept_along_and_stops_the_drill(drill: Drill) -> None:
    drill.plan(kind="children", phases=LONG)
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    worker = drill.events("events/conductor.jsonl", "worker_started")[0]["pid"]
    keeper = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    _stopped(drill, process, "keeper was killed")
    assert not alive(worker)
    assert drill.events("events/conductor.jsonl", "worker_exited")[0]["code"] == -9
    assert drill.events("events/conductor.jsonl", "drill_ended")[0]["status"] == "aborted"


def test_after_a_kill_of_the_conductor_the_verbs_name_the_proxy_that_has_the_port_and_what_ends_it(
    drill: Drill,
) -> None:
    drill.plan(phases=LONG)
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    process.kill()
    process.communicate(timeout=20)
    proxy = drill.events("events/conductor.jsonl", "proxy_started")[0]["pid"]
    drill.wait_for("fault_lifted", "events/proxy.jsonl")  # nobody renewed it
    assert drill.events("events/proxy.jsonl", "fault_lifted")[0]["why"] == "expired"
    for order in ("stop", "lift"):
        told = drill.verb(order)
        assert told.returncode == 2
        assert "no live run" in told.stderr
        assert f"(pid {proxy}) still has 127.0.0.1:{drill.proxy_port}" in told.stderr
        assert f"kill {proxy}" in told.stderr
    told = drill.verb("proxy", "--upstream", "http://127.0.0.1:9", "--port", str(drill.proxy_port))
    assert told.returncode == 2
    assert f"kill {proxy}" in told.stderr
    os.kill(proxy, signal.SIGTERM)
    wait_until(lambda: not connects(drill.proxy_port), 8, "the port is free")
    assert "start one" in drill.verb("stop").stderr


def test_impatience_does_not_change_the_code_of_a_stop(drill: Drill) -> None:
    drill.plan(kind="stubborn", phases=LONG)
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    for _ in range(60):
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        if process.poll() is not None:
            break
    _stopped(drill, process, "SIG")
    assert (drill.run_dir / "seal.json").exists()


def test_a_worker_that_floods_its_log_is_cut_and_the_drill_goes_on(drill: Drill) -> None:
    flood = "import os, sys, threading\n"
    flood += (
        "def noise():\n    while True: os.write(1, b'api_key=sk-proj-0123456789abcdefghijklmnop some words ' * 1000)\n"
    )
    agent = drill.folder / "agent.py"
    agent.write_text(flood + "threading.Thread(target=noise, daemon=True).start()\n" + agent.read_text())
    drill.plan(phases={"baseline_s": 1, "fault_s": 1.2, "recovery_s": 1.5})
    done = drill.run("--rehearsal")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    log = (drill.run_dir / "worker.log").read_bytes()
    assert b"bytes cut here" in log and b"0123456789abcdefghijklmnop" not in log
    assert len(log) < 20 * 1024 * 1024 + 65_536


def test_a_pipe_that_nobody_reads_does_not_hold_the_drill_up(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 1.2, "recovery_s": 1.5})
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    os.write(writer, b"x" * 4096)  # full from the start
    os.set_blocking(writer, True)
    command = drill.command("run", "eviction", "plan.yaml", "--rehearsal", "--json")
    process = subprocess.Popen(
        command, cwd=drill.folder, env=drill.env, stdout=subprocess.DEVNULL, stderr=writer, stdin=subprocess.DEVNULL, text=True
    )  # fmt: skip
    drill.processes.append(process)
    drill.wait_for("drill_ended", within_s=30)
    wait_until((drill.run_dir / "seal.json").exists, 5, "the seal")
    os.close(writer)
    os.close(reader)  # what is printed after the drill may wait for a reader; now there is none
    assert process.wait(timeout=20) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="a file system of one's own needs root")
@pytest.mark.parametrize("inodes", [6, 11, 13, 14])  # from none for the run's folder to too few for its parts
def test_a_file_system_without_inodes_ends_the_drill_and_leaves_nothing(drill: Drill, inodes: int) -> None:
    runs = drill.folder / "runs"
    runs.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"nr_inodes={inodes},size=2g", "tmpfs", str(runs)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mount is not allowed here")
    try:
        drill.plan(phases={"baseline_s": 1, "fault_s": 1.2, "recovery_s": 1.5})
        done = drill.run("--rehearsal")
        assert done.returncode in (2, 3), done.stdout + done.stderr
        assert "full disk" in done.stdout + done.stderr or "No space left" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr and "internal error" not in done.stderr
        wait_until(lambda: drill.own_processes() == [], 8, "nothing left running")
        assert not connects(drill.proxy_port)
    finally:
        subprocess.run(["umount", "-l", str(runs)], check=False)


def test_a_terminal_that_goes_away_is_a_stop_and_no_failed_gate(drill: Drill) -> None:
    drill.plan(phases=LONG)
    master, slave = os.openpty()
    line = shlex.join(drill.command("run", "eviction", "plan.yaml", "--rehearsal"))
    process = subprocess.Popen(
        ["bash", "-c", f"exec {line}"],
        cwd=drill.folder,
        env=drill.env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        text=True,
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, 0x540E, 0), None)[2],  # TIOCSCTTY
    )
    drill.processes.append(process)
    os.close(slave)
    os.set_blocking(master, False)
    drill.wait_for("fault_met", "events/proxy.jsonl")
    os.close(master)
    assert process.wait(timeout=30) == 3
    wait_until(lambda: drill.own_processes() == [], 8, "nothing left running")
    assert (drill.run_dir / "seal.json").exists()


def test_an_answer_of_the_proxy_s_own_is_no_answer_of_the_endpoint(drill: Drill) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(0.2)
        drill.plan(
            proxy={"listen": f"127.0.0.1:{drill.proxy_port}", "upstream": f"http://127.0.0.1:{mute.getsockname()[1]}"}
        )
        process = drill.start("--rehearsal")
        while process.poll() is None:
            with contextlib.suppress(TimeoutError):
                mute.accept()[0].close()
        out, err = process.communicate()
    assert process.returncode == 2, out + err
    assert "proxy_passes" in err and "of the proxy's own" in err


def test_a_token_that_others_may_read_is_refused_and_a_long_reason_lifts_all_the_same(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 30})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    token = Path(drill.env["DRILLMASTER_STATE"]) / drill.run_dir.name / "lead.token"
    token.chmod(0o644)
    told = drill.verb("lift")
    assert told.returncode == 2 and "chmod 600" in told.stderr
    token.chmod(0o600)
    told = drill.verb("lift", "--why", "x" * 100_000, "--by", "y" * 10_000)
    assert told.returncode == 0, told.stderr
    drill.wait_for("phase_started", phase="recovery")
    told = drill.verb("note", "other", "\x1b[2J\x1b]0;owned\x07 key=sk-proj-0123456789abcdefghijklmnop")
    assert told.returncode == 0, told.stderr
    assert "no more" not in drill.verb("note", "other", "x" * 900).stderr
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == 3
    notes = (drill.run_dir / "events/notes.jsonl").read_text()
    assert "\\u001b" not in notes and "0123456789abcdefghijklmnop" not in notes + err and "\x1b]0" not in err
