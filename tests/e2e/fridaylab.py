"""A Friday drill as a team has it: four files, one command, the stand-in concierge on loopback. For the tests of `run friday`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from tests.e2e.drills import free_ports

KIT = resources.files("drillmaster.kits") / "friday"
SECRET = "a-secret-of-the-test-0123456789"
PLAN = """\
kind: plan
drill: friday
service: escalation-concierge
seats: {{lead: Ada, scribe: Ben, verifier: Cleo}}
target: {{url: "http://127.0.0.1:{agent}"}}
worker:
  cmd: ["{python}", -P, -m, drillmaster, standin, concierge, --port, "{agent}", --model-ms, "{model_ms}", --die-with-parent]
  env: {{ALERT_URL: "http://127.0.0.1:{alerts}/alerts", ALERT_TOKEN: "${{ALERT_SECRET}}"}}
missions:
  loads: [{{run: missions, file: missions.yaml, concurrent: {concurrent}, ramp_s: 1}}]
  time_limit_s: 5
flags:
  listen: 127.0.0.1:{flags}
  on: [{{flag: toolTimeout, first: 1}}]
detectors:
  listen: 127.0.0.1:{alerts}
  receivers: [{{form: alertmanager, name: pager, path: /alerts, secret_env: ALERT_SECRET}}]
phases: {{baseline_s: {baseline_s}, fault_s: {fault_s}, recovery_s: {recovery_s}}}
kill: {kill}
preflight:
  quiet_window_agreed: {{by: Ada, at: "{now}"}}
  on_call_told: {{by: Ada, at: "{now}"}}
  status_note_drafted: {{by: Ben, at: "{now}"}}
seed: 3
"""


class Friday:
    """A folder with a drill's files, and runs of it."""

    def __init__(
        self,
        folder: Path,
        *,
        concurrent: int = 20,
        model_ms: int = 200,
        phases: tuple[float, float, float] = (3, 5, 3),
        kill: str = "null",
        bug: str | None = None,
    ) -> None:
        self.folder = folder
        self.agent, self.flags, self.alerts = free_ports(3)
        self.mark = f"FRIDAY_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.env = {**os.environ, "ALERT_SECRET": SECRET, "DRILLMASTER_STATE": str(folder / "state"), name: value}
        self.env.pop("STANDIN_BUG", None)
        if bug is not None:
            self.env["STANDIN_BUG"] = bug
        text = PLAN.format(
            agent=self.agent, flags=self.flags, alerts=self.alerts, python=sys.executable, concurrent=concurrent,
            model_ms=model_ms, baseline_s=phases[0], fault_s=phases[1], recovery_s=phases[2], kill=kill,
            now=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
        self.plan = folder / "friday-plan.yaml"
        self.plan.write_text(text)
        matrix = (KIT / "demo" / "matrix.yaml").read_text().replace("$review_by", "2199-01-01")
        self.matrix = folder / "drill-matrix.yaml"
        self.matrix.write_text(matrix.replace("in_flight: 200", f"in_flight: {concurrent}"))
        for one in ("flags.yaml", "missions.yaml"):
            (folder / one).write_text((KIT / one).read_text())

    @contextlib.contextmanager
    def staging(self, **environ: str) -> Iterator[None]:
        """The agent as a staging stack has it: it runs before the drill, and knows nothing of this run."""
        text, agent = self.plan.read_text(), self.folder / "agent"
        (agent / "transcripts").mkdir(parents=True)
        worker = text[text.index("worker:\n") : text.index("missions:\n")]
        where = "timeline: agent/drill.jsonl\ntranscripts: agent/transcripts\n"
        self.plan.write_text(text.replace(worker, where))
        told = {
            "CHAOS_URL": f"http://127.0.0.1:{self.flags}",
            "DRILL_LOG": str(agent / "drill.jsonl"),
            "DRILL_TRANSCRIPTS": str(agent / "transcripts"),
            "ALERT_URL": f"http://127.0.0.1:{self.alerts}/alerts",
            "ALERT_TOKEN": SECRET,
        }
        words = ["standin", "concierge", "--port", str(self.agent), "--model-ms", "200", "--die-with-parent"]
        argv = [sys.executable, "-P", "-m", "drillmaster", *words]
        process = subprocess.Popen(
            argv, env=self.env | told | environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.terminate()
            process.communicate(timeout=20)

    def start(self, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "drillmaster", "run", "friday", "friday-plan.yaml", *options],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *options: str, within_s: float = 120) -> tuple[int, str, str]:
        process = self.start(*options)
        out, err = process.communicate(timeout=within_s)
        return process.returncode, out, err

    def verb(self, *words: str) -> tuple[int, str]:
        """Another command, in this folder; its exit code and what it said."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "drillmaster", *words],
            cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    # -- what a run left

    @property
    def path(self) -> Path:
        """The one run's folder."""
        (found,) = (path for path in (self.folder / "runs").iterdir() if path.is_dir())
        return found

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file of the run that are whole."""
        found = []
        with contextlib.suppress(OSError, ValueError):
            for line in (self.path / name).read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError):
                    row = json.loads(line)
                    if isinstance(row, dict):
                        found.append(row)
        return found

    def wait_for(self, name: str, event: str, *, within_s: float = 40, **fields: Any) -> dict[str, Any]:
        """Wait until a line of that event, with these fields, is in a file of the run."""
        give_up_s = time.monotonic() + within_s
        while time.monotonic() < give_up_s:
            for row in self.lines(name):
                if row.get("event") == event and all(row.get(key) == value for key, value in fields.items()):
                    return row
            time.sleep(0.05)
        raise AssertionError(f"no {event} {fields} in {name} within {within_s} s")

    def living(self) -> Iterator[tuple[int, str]]:
        """Processes of this test that still live."""
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                        yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()

    def gone_within(self, seconds: float) -> list[str]:
        """What is still there after so many seconds; empty as soon as nothing is."""
        give_up_s = time.monotonic() + seconds
        while (left := [line for _, line in self.living()]) and time.monotonic() < give_up_s:
            time.sleep(0.2)
        return left

    def clear(self) -> None:
        """End what is still there."""
        for pid, _ in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
