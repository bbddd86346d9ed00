"""`drillmaster run` over real sockets: whole drills, and every way in which one can be ended."""

import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.drills import Drill, alive, connects, drilling, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    yield from drilling(tmp_path)


def _no_fault_left(drill: Drill) -> None:
    injected = drill.events("events/proxy.jsonl", "fault_injected")
    lifted = drill.events("events/proxy.jsonl", "fault_lifted")
    assert len(lifted) == len(injected)


def _proxy_passes(drill: Drill) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", drill.proxy_port), timeout=2) as sock:
            sock.settimeout(2)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b" 200 " in sock.recv(100)
    except OSError:
        return False


def test_a_whole_drill_is_walked_sealed_and_leaves_nothing_running(drill: Drill) -> None:
    drill.plan(seats={"lead": "Ada", "scribe": "Ben", "verifier": "Cem"}, preflight=_attested())
    process = drill.start("--json", "--yes")
    drill.wait_for("phase_started", phase="drain")
    for kind in ("injection_seen", "first_fallback_seen", "window_ended"):  # a Scribe who is late is waited for
        assert drill.verb("note", kind).returncode == 0
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    said = json.loads(out)
    assert said["exit"] == 0 and Path(said["run"]) == drill.run_dir
    phases = [row["phase"] for row in drill.events("events/conductor.jsonl", "phase_started")]
    assert phases == ["baseline", "fault", "recovery", "drain"]
    assert [row["at"] for row in drill.events("events/conductor.jsonl", "code_state")] == ["start", "lift", "end"]
    assert drill.events("events/conductor.jsonl", "fault_gone")[0]["gone"] is True
    assert drill.events("events/conductor.jsonl", "drill_ended")[0]["status"] == "completed"
    _no_fault_left(drill)
    ends = drill.events("events/traffic.jsonl", "user_request")
    assert len([r for r in ends if r["phase"] == "start"]) == len([r for r in ends if r["phase"] == "end"])
    assert drill.verb("verify", str(drill.run_dir)).returncode == 0
    assert drill.own_processes() == []
    state = Path(drill.env["DRILLMASTER_STATE"])
    assert [path for path in state.rglob("*") if path.is_file() or path.is_socket()] == []
    assert not connects(drill.proxy_port) and not connects(drill.agent_port)
    manifest = json.loads((drill.run_dir / "manifest.json").read_text())
    assert manifest["stamps"] == [] and manifest["seats"]["scribe"] == "Ben"
    log = (drill.run_dir / "worker.log").read_text()
    env = json.loads(log.splitlines()[0])
    proxy = f"http://127.0.0.1:{drill.proxy_port}"
    assert env["MODEL_BASE_URL"] == env["ANTHROPIC_BASE_URL"] == proxy and env["OPENAI_BASE_URL"] == f"{proxy}/v1"
    assert env["DRILL_LOG"] == str(drill.run_dir / "timeline.jsonl")
    assert "abcdefghijklmnopqrstuvwxyz" not in log
    assert "FAULT INJECTED at" in err and "Scribe: still missing injection_seen" in err


def _attested() -> dict[str, dict[str, str]]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {line: {"by": "Ada", "at": now} for line in ("quiet_window_agreed", "on_call_told", "status_note_drafted")}


@pytest.mark.parametrize("mode", ["reset", "503", "hang"])
def test_a_rehearsal_goes_on_to_the_gate_and_passes_a_healthy_agent_in_every_mode(drill: Drill, mode: str) -> None:
    drill.plan()
    done = drill.run("--rehearsal", "--mode", mode)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[REHEARSAL]" in done.stdout
    for name in ("card.md", "report.html"):
        assert (drill.run_dir / name).is_file() and f"runs/{drill.run_dir.name}/{name}" in done.stdout


def test_a_rehearsal_fails_an_agent_without_a_fallback(drill: Drill) -> None:
    drill.plan(kind="none")
    done = drill.run("--rehearsal")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL fallback" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_fault_lifts_seals_and_exits_3(drill: Drill, number: signal.Signals) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 3, err
    assert number.name in out
    _no_fault_left(drill)
    assert drill.events("events/proxy.jsonl", "fault_lifted")[0]["why"] == "ordered"
    assert drill.events("events/conductor.jsonl", "drill_ended")[0]["status"] == "aborted"
    assert drill.verb("verify", str(drill.run_dir)).returncode == 0
    assert drill.own_processes() == []


def test_a_signal_in_the_pre_flight_starts_nothing(drill: Drill) -> None:
    drill.plan(kind=None)
    process = drill.start("--rehearsal", "--wait-agent", "60")
    drill.wait_for("preflight", check="proxy_passes")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 3
    assert drill.events("events/traffic.jsonl") == []


def test_a_killed_proxy_is_replaced_passing_through_and_the_drill_is_stopped(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    os.kill(drill.events("events/conductor.jsonl", "proxy_started")[0]["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=25)
    assert process.returncode == 3, err
    assert "SIGKILL" in out
    ended = drill.events("events/conductor.jsonl", "proxy_exited")
    assert [(row["code"], row["expected"]) for row in ended] == [(-9, False), (0, True)]
    assert len(drill.events("events/conductor.jsonl", "proxy_started")) == 2
    assert (drill.run_dir / "seal.json").exists()
    assert drill.own_processes() == []


@pytest.mark.parametrize("phase", ["baseline", "recovery"])
def test_a_conductor_killed_outside_the_fault_leaves_a_proxy_that_passes_and_no_worker(
    drill: Drill, phase: str
) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 1, "recovery_s": 60})
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase=phase)
    process.kill()
    process.communicate()
    assert _proxy_passes(drill)
    wait_until(lambda: not connects(drill.agent_port), 10, "the agent's end")
    assert drill.verb("seal", str(drill.run_dir)).returncode == 0


def test_a_killed_conductor_leaves_a_proxy_that_heals_and_no_worker(drill: Drill) -> None:
    drill.plan(kind="children", phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    worker = drill.events("events/conductor.jsonl", "worker_started")[0]["pid"]
    assert not _proxy_passes(drill)
    process.kill()
    process.communicate()
    killed = time.monotonic()
    wait_until(lambda: _proxy_passes(drill), 10, "a proxy that passes again")
    assert time.monotonic() - killed < 10
    wait_until(lambda: not alive(worker), 10, "the worker's end")
    wait_until(lambda: not connects(drill.agent_port), 10, "its port")
    assert drill.events("events/proxy.jsonl", "fault_lifted")[0]["why"] == "expired"
    leftover = drill.run_dir
    assert drill.verb("seal", leftover.name).returncode == 0
    assert drill.verb("verify", str(leftover)).returncode == 0
    # The next drill on the same port takes over.
    drill.plan()
    done = drill.run("--rehearsal")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "took over" in done.stderr
    wait_until(lambda: drill.own_processes() == [], 10, "nothing left running")
    assert list(Path(drill.env["DRILLMASTER_STATE"]).rglob("*.token")) == []  # not the killed one's either


def test_a_proxy_that_is_stopped_and_not_killed_is_replaced_and_the_drill_ends(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    os.kill(drill.events("events/conductor.jsonl", "proxy_started")[0]["pid"], signal.SIGSTOP)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 3 and "does not answer" in out, err
    assert drill.own_processes() == []


def test_a_killed_worker_is_the_agents_failure_and_the_drill_goes_on(drill: Drill) -> None:
    drill.plan()
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    os.kill(drill.events("events/conductor.jsonl", "worker_started")[0]["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1, out + err
    ended = drill.events("events/conductor.jsonl", "worker_exited")
    assert [(row["code"], row["expected"]) for row in ended] == [(-9, False)]
    assert drill.own_processes() == []


def test_a_worker_that_does_not_heed_sigterm_and_its_children_are_ended(drill: Drill) -> None:
    drill.plan(kind="stubborn", phases={"baseline_s": 0.5, "fault_s": 1.2, "recovery_s": 1.5})
    done = drill.run("--rehearsal")
    assert done.returncode in (0, 1), done.stderr
    assert drill.events("events/conductor.jsonl", "worker_exited")[0]["code"] == -9
    assert drill.own_processes() == []


def test_three_people_work_it_by_hand_and_each_only_what_is_theirs(drill: Drill) -> None:
    drill.plan(
        phases={"baseline_s": 1, "fault_s": 12, "recovery_s": 1.5},
        seats={"lead": "Ada", "scribe": "Ben", "verifier": "Cem"},
        preflight=_attested(),
    )
    process = drill.start("--by-hand", "--yes")
    drill.wait_for("phase_started", phase="baseline")
    state = Path(drill.env["DRILLMASTER_STATE"]) / drill.run_dir.name
    live = json.loads((state / "live.json").read_text())
    private = [
        *(state / f"{seat}.token" for seat in ("lead", "scribe", "verifier")),
        live["control"],
        live["proxy_control"],
    ]
    assert [Path(path).stat().st_mode & 0o777 for path in private] == [0o600] * 5
    assert not any("token" in path.name or "sock" in path.name for path in drill.run_dir.rglob("*"))
    wrong = drill.verb("inject", "--token-file", str(state / "scribe.token"))
    assert wrong.returncode == 2 and "Lead" in wrong.stderr
    wrong = drill.verb("note", "injection_seen", "--token-file", str(state / "lead.token"))
    assert wrong.returncode == 2 and "Scribe" in wrong.stderr
    wrong = drill.verb("note", "injection_sean")
    assert wrong.returncode == 2 and "Did you mean injection_seen?" in wrong.stderr
    wrong = drill.verb("lift")
    assert wrong.returncode == 2 and "baseline" in wrong.stderr
    assert drill.events("events/proxy.jsonl", "fault_injected") == []
    early = drill.verb("seal", drill.run_dir.name)
    assert early.returncode == 2 and f"drillmaster stop {drill.run_dir.name}" in early.stderr
    assert not (drill.run_dir / "seal.json").exists()
    time.sleep(0.5)
    told = drill.verb("inject")
    assert told.returncode == 0, told.stderr
    assert "is under its fault" in told.stdout
    assert drill.verb("note", "injection_seen", "the", "Lead", "said so").returncode == 0
    assert drill.verb("note", "first_fallback_seen").returncode == 0
    assert drill.verb("inject").returncode == 2
    assert drill.verb("lift").returncode == 0
    assert drill.verb("note", "window_ended").returncode == 0
    _out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    notes = drill.events("events/notes.jsonl", "note")
    assert [(n["kind"], n["by"]) for n in notes] == [
        ("injection_seen", "Ben"), ("first_fallback_seen", "Ben"), ("window_ended", "Ben"),
    ]  # fmt: skip
    assert notes[0]["text"] == "the Lead said so"
    assert drill.events("events/conductor.jsonl", "inject_ordered")[0]["by"] == "Ada"
    after = drill.verb("note", "other", "late", "--run", str(drill.run_dir))
    assert after.returncode == 2 and "Traceback" not in after.stderr


def test_the_lead_stops_a_drill_from_another_terminal(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    told = drill.verb("stop", "--why", "the site is on fire")
    assert told.returncode == 0, told.stderr
    out, _err = process.communicate(timeout=20)
    assert process.returncode == 3 and "the site is on fire" in out
    _no_fault_left(drill)


def test_a_person_is_asked_when_budget_and_warnings_have_been_said_and_a_no_starts_nothing(drill: Drill) -> None:
    drill.plan(seats={"lead": "Ada", "scribe": "Ben", "verifier": "Cem"}, preflight=_attested())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        drill.command("run", "eviction", "plan.yaml"),
        cwd=drill.folder,
        env=drill.env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    drill.processes.append(process)  # type: ignore[arg-type]  # bytes or text, it is ended all the same
    os.close(theirs)
    said = b""
    try:
        while b"[y/N]" not in said:
            said += os.read(ours, 4096)
        os.write(ours, b"n\n")
        process.wait(20)
    finally:
        os.close(ours)
    text = said.decode()
    assert process.returncode == 2
    assert text.index("Over the fault") < text.index("warning:") < text.index("Start the drill")
    assert not (drill.folder / "runs").exists()


def test_a_second_drill_on_the_same_target_is_refused_with_the_pid_of_the_first(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 60, "fault_s": 60, "recovery_s": 5})
    first = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase="baseline")
    before = drill.run_dir
    second = drill.run("--rehearsal")
    assert second.returncode == 2 and f"pid {first.pid}" in second.stderr
    assert drill.run_dir == before
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=20)
    assert first.returncode == 3


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("elsewhere", "MODEL_BASE_URL"),  # it answers, and goes round the proxy
        ("sick", "http 500"),  # it never answers as the plan expects
    ],
)
def test_an_agent_that_is_not_ready_for_a_drill_is_refused_before_anything_is_hurt(
    drill: Drill, kind: str, word: str
) -> None:
    cmd = drill.agent(kind, f"http://127.0.0.1:{drill.upstream_port}/ask")
    drill.plan(worker={"cmd": cmd, "ready_s": 2})
    done = drill.run("--rehearsal")
    assert done.returncode == 2, done.stderr
    assert word in done.stderr and "Traceback" not in done.stderr
    assert drill.events("events/proxy.jsonl", "fault_injected") == []
    assert drill.own_processes() == []


def test_a_base_url_with_https_is_named_as_what_it_is(drill: Drill) -> None:
    env = {"MODEL_BASE_URL": f"https://127.0.0.1:{drill.proxy_port}"}
    drill.plan(worker={"cmd": drill.agent(), "ready_s": 2, "env": env})
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "https://" in done.stderr and "TLS" in done.stderr, done.stderr


def test_an_agent_that_is_on_its_fallback_already_is_refused(tmp_path: Path) -> None:
    for drill in drilling(tmp_path, status=401):
        drill.plan()
        done = drill.run("--rehearsal")
        assert done.returncode == 2 and "status 401" in done.stderr and "key" in done.stderr, done.stderr


def test_an_endpoint_that_nobody_serves_is_refused(drill: Drill) -> None:
    drill.plan(proxy={"listen": f"127.0.0.1:{drill.proxy_port}", "upstream": "http://127.0.0.1:9"})
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "upstream_reachable" in done.stderr
    assert drill.own_processes() == []


def test_another_agent_on_the_worker_s_port_is_refused(drill: Drill) -> None:
    env = {**drill.env, "MODEL_BASE_URL": f"http://127.0.0.1:{drill.proxy_port}"}
    drill.processes.append(
        subprocess.Popen(drill.agent(), cwd=drill.folder, env=env, stdout=subprocess.DEVNULL, text=True)
    )
    wait_until(lambda: connects(drill.agent_port), what="the other agent")
    drill.plan()
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "target_free" in done.stderr and "ss -ltnp" in done.stderr


def test_a_worker_that_cannot_be_started_is_refused_and_nothing_is_left(drill: Drill) -> None:
    drill.plan(worker={"cmd": ["./no-such-program"], "ready_s": 5})
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "no program there" in done.stderr
    assert not (drill.folder / "runs").exists()


def test_a_worker_that_ends_at_once_is_refused_with_what_it_said_and_its_folder_is_kept(drill: Drill) -> None:
    (drill.folder / "agent.py").write_text("import no_such_module_of_mine\n")
    drill.plan()
    done = drill.run("--rehearsal")
    assert done.returncode == 2
    refusal = done.stderr.splitlines()[-1]
    assert "No module named 'no_such_module_of_mine'" in refusal
    assert f"kept for a look: {drill.run_dir}" in done.stderr


def test_a_refusal_that_has_said_it_all_keeps_no_folder(drill: Drill) -> None:
    drill.plan(kind=None)
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "start the agent" in done.stderr
    assert "nothing is kept" in done.stderr
    assert [path.name for path in (drill.folder / "runs").iterdir() if not path.name.startswith(".")] == []


@pytest.mark.parametrize("tail", ["/v1", "/v1/", ""])
def test_an_endpoint_with_v1_and_without_is_the_same(drill: Drill, tail: str) -> None:
    upstream = f"http://127.0.0.1:{drill.upstream_port}{tail}"
    drill.plan(
        proxy={"listen": f"127.0.0.1:{drill.proxy_port}", "upstream": upstream},
        worker={"cmd": drill.agent(), "ready_s": 15, "env": {"MODEL_BASE_URL": "${OPENAI_BASE_URL}"}},
        phases={"baseline_s": 30, "fault_s": 2, "recovery_s": 1.5},
    )
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase="baseline")
    drill.wait_for("attempt", "events/proxy.jsonl", path="/v1/ask", status=200)
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=20)
    assert process.returncode == 3, err
    # What is said to be next has to work.
    command = next(line for line in err.splitlines() if line.startswith("next: ")).removeprefix("next: drillmaster ")
    judged = drill.verb(*shlex.split(command))
    assert judged.returncode == 2 and "Traceback" not in judged.stderr, judged.stderr
    assert drill.verb("report", str(drill.run_dir)).returncode == 0


def test_a_policy_that_vanished_is_gone_and_not_changed(drill: Drill) -> None:
    drill.plan()
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase="fault")
    (drill.folder / "policy.yaml").unlink()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 2, out + err
    assert f"the policy is gone from {drill.folder / 'policy.yaml'}" in err


def test_a_baseline_that_is_not_healthy_is_never_injected_into(drill: Drill) -> None:
    drill.plan(
        target={
            "url": f"http://127.0.0.1:{drill.agent_port}/answer",
            "expect": {"pointer": "/text", "not_matching": "never mind"},
        },
        phases={"baseline_s": 2, "fault_s": 2, "recovery_s": 2},
    )
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase="baseline")
    drill.upstream.send_signal(signal.SIGSTOP)
    os.kill(drill.events("events/conductor.jsonl", "worker_started")[0]["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=30)
    drill.upstream.send_signal(signal.SIGCONT)
    assert process.returncode == 3, err
    assert "with nothing injected" in out
    assert drill.events("events/proxy.jsonl", "fault_injected") == []
    assert (drill.run_dir / "seal.json").exists()


def test_a_spend_cap_ends_the_drill_before_an_agent_that_retries_has_spent_more(drill: Drill) -> None:
    drill.plan(kind="greedy", spend={"max_requests": 90}, phases={"baseline_s": 2, "fault_s": 1, "recovery_s": 1.5})
    done = drill.run("--rehearsal")
    assert done.returncode == 3 and "spend.max_requests 90" in done.stdout, done.stdout + done.stderr
    assert len([row for row in drill.events("events/proxy.jsonl", "attempt") if row["upstream"]]) <= 90


def test_a_cap_on_tokens_ends_the_drill(drill: Drill) -> None:
    drill.plan(
        spend={"max_requests": 10_000, "max_tokens": 300}, phases={"baseline_s": 30, "fault_s": 1, "recovery_s": 1.5}
    )
    done = drill.run("--rehearsal")
    assert done.returncode == 3 and "spend.max_tokens 300" in done.stdout, done.stdout + done.stderr


def test_policy_that_changes_during_the_drill_refuses_the_verdict(drill: Drill) -> None:
    drill.plan()
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase="fault")
    policy = drill.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("max_failed_ratio: 0.1", "max_failed_ratio: 0.9"))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 2, out + err
    assert "policy changed during the drill" in out


def test_too_many_failures_end_the_drill_where_the_plan_says_so(drill: Drill) -> None:
    drill.plan(
        kind="none",
        stop={"failed_ratio": 0.5, "over_requests": 10},
        phases={"baseline_s": 1, "fault_s": 30, "recovery_s": 2},
    )
    done = drill.run("--rehearsal")
    assert done.returncode == 3 and "stop.failed_ratio" in done.stdout
    _no_fault_left(drill)


def test_evidence_that_cannot_be_written_any_more_ends_the_drill(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5}, traffic={"every_s": 0.02, "time_limit_s": 1.5})
    limited = f"ulimit -f 100; exec {shlex.join(drill.command('run', 'eviction', 'plan.yaml', '--rehearsal'))}"
    process = subprocess.Popen(
        ["bash", "-c", limited],
        cwd=drill.folder,
        env=drill.env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    drill.processes.append(process)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, out + err
    assert "limit on the size of files" in out + err or "lines of evidence" in out + err
    assert "Traceback" not in err
    wait_until(lambda: drill.own_processes() == [], 12, "nothing left running")


def test_sixty_four_descriptors_are_enough(drill: Drill) -> None:
    drill.plan(traffic={"every_s": 0.1, "time_limit_s": 1.5})
    limited = f"ulimit -n 64; exec {shlex.join(drill.command('run', 'eviction', 'plan.yaml', '--rehearsal', '--mode', 'hang'))}"
    done = subprocess.run(
        ["bash", "-c", limited], cwd=drill.folder, env=drill.env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    drill.plan(traffic={"every_s": 0.01, "time_limit_s": 1.5})
    refused = subprocess.run(
        ["bash", "-c", limited], cwd=drill.folder, env=drill.env, capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 2 and "ulimit -n" in refused.stderr


def test_an_agent_of_ones_own_keeps_its_proxy_after_the_drill(drill: Drill) -> None:
    drill.plan(kind=None)
    process = drill.start("--rehearsal", "--wait-agent", "20")
    drill.wait_for("preflight", check="proxy_passes")
    env = {**drill.env, "MODEL_BASE_URL": f"http://127.0.0.1:{drill.proxy_port}"}
    agent = subprocess.Popen(drill.agent(), cwd=drill.folder, env=env, text=True, stdout=subprocess.DEVNULL)
    drill.processes.append(agent)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 0, out + err
    assert agent.poll() is None and _proxy_passes(drill)
    assert "export MODEL_BASE_URL=" in err and "goes on passing through" in err
    again = drill.run("--rehearsal", "--mode", "503")
    assert again.returncode == 0, again.stdout + again.stderr


def test_what_an_agent_of_ones_own_writes_during_the_drill_becomes_the_run_s(drill: Drill) -> None:
    own = drill.folder / "own.jsonl"
    old = '{"t": "2020-01-01T00:00:00Z", "event": "fallback_engaged", "id": "of another drill"}\n'
    own.write_text(old)
    drill.plan(kind=None, timeline="own.jsonl")
    process = drill.start("--rehearsal", "--wait-agent", "20")
    drill.wait_for("preflight", check="proxy_passes")
    env = {**drill.env, "MODEL_BASE_URL": f"http://127.0.0.1:{drill.proxy_port}", "DRILL_LOG": str(own)}
    drill.processes.append(subprocess.Popen(drill.agent("marks"), cwd=drill.folder, env=env, text=True))
    out, err = process.communicate(timeout=40)
    assert process.returncode == 1, out + err  # starts without ends: the agent's own words, and they are heard
    taken = drill.events("timeline.jsonl")
    assert len(taken) >= 100 and all(row["event"] == "user_request" for row in taken)
    assert own.read_text().startswith(old)


def test_bad_plans_get_one_line_that_says_what_to_do(drill: Drill) -> None:
    drill.plan(phases={"baseline_s": 1, "fault_s": 0.5, "recovery_s": 2})
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "max_fallback_s" in done.stderr and "Traceback" not in done.stderr
    drill.plan(proxy={"listen": "127.0.0.1:0", "upstream": None})
    done = drill.run("--rehearsal")
    assert done.returncode == 2 and "upstream" in done.stderr
    (drill.folder / "plan.yaml").write_text("kind: plan\n")
    done = drill.run()
    assert done.returncode == 2 and "plan.yaml" in done.stderr
    none = subprocess.run(
        [sys.executable, "-m", "drillmaster", "run", "eviction"],
        cwd=drill.folder,
        env=drill.env,
        capture_output=True,
        text=True,
    )
    assert none.returncode == 2 and "drillmaster init eviction" in none.stderr
    assert not (drill.folder / "runs").exists()
