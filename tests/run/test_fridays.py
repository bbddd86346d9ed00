"""From the files of a Friday drill to one that makes sense, without a process."""

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.missions.settings import OwnLoad
from drillmaster.run import Options
from drillmaster.run.fridays import FridayReady, prepare_friday
from drillmaster.run.traffic import Tally

KIT = resources.files("drillmaster.kits") / "friday"
NOW_NS = parse_rfc3339("2026-12-04T09:00:00Z") or 0
ENVIRON = {"DEMO_ALERT_TOKEN": "0123456789abcdef0123"}
VALUES = {
    "$agent_port": "8090", "$flags_port": "8070", "$alert_port": "8060", "$python": "python3", "$review_by": "2027-02-01",
    "$${": "${",
}  # fmt: skip
PROMETHEUS = """\
global: {scrape_interval: 60s, evaluation_interval: 60s}
rule_files: [rules.yml]
scrape_configs: [{job_name: agent}]
"""
RULES = """\
groups:
  - name: tools
    rules: [{alert: ToolFailures, expr: tool_failing > 0, labels: {severity: sev2}}]
"""
ALERTMANAGER = "route: {receiver: pager, group_wait: 30s}\nreceivers: [{name: pager}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, called in (("demo/plan.yaml", "friday-plan.yaml"), ("demo/matrix.yaml", "drill-matrix.yaml")):
        text = (KIT / name).read_text()
        for old, new in VALUES.items():
            text = text.replace(old, new)
        (tmp_path / called).write_text(text)
    for name in ("flags.yaml", "missions.yaml"):
        (tmp_path / name).write_text((KIT / name).read_text())
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{old!r} is not in {path.name}"
    path.write_text(text.replace(old, new, 1))


def ready(folder: Path, environ: dict[str, str] = ENVIRON, **options: Any) -> FridayReady:
    return prepare_friday(folder / "friday-plan.yaml", Options(**options), wall_ns=NOW_NS, environ=environ)


def test_the_kits_own_files_make_sense(folder: Path) -> None:
    got = ready(folder)
    assert got.plan.missions.concurrent == 200
    assert len(got.matrix.rows) == 6
    assert got.warnings == ()
    assert not got.rehearsal


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("friday-plan.yaml", "drill: friday", "drill: eviction", "drillmaster run eviction"),
        ("friday-plan.yaml", "kind: plan", "kind: policy", "drillmaster init friday"),
        ("friday-plan.yaml", "service: escalation-concierge", "service:", "/service"),  # a blank
        ("friday-plan.yaml", "service: escalation-concierge", "service: another", "one service in both files"),
        ("friday-plan.yaml", "flag: toolTimeout", "flag: tool_timeout", "Did you mean 'toolTimeout'"),
        (
            "friday-plan.yaml",
            "file: missions.yaml",
            "file: other.yaml",
            "drillmaster init friday writes a missions.yaml",
        ),
        ("friday-plan.yaml", "registry: flags.yaml", "registry: other.yaml", "other.yaml"),
        ("friday-plan.yaml", "policy: drill-matrix.yaml", "policy: other.yaml", "other.yaml"),
        ("friday-plan.yaml", "policy: drill-matrix.yaml", f"policy: {'x' * 300}", "a name that is too long"),
        ("friday-plan.yaml", "capability: refund", "capability: refunds", "Did you mean 'refund'"),
        ("friday-plan.yaml", "concurrent: 200", "concurent: 200", "concurent"),
        ("friday-plan.yaml", "seed: 7", "seed: 7\nseed: 8", "seed"),  # a key that stands twice
        ("drill-matrix.yaml", "objective: < 10 s", "objective:", "/rows/2/objective"),
        ("drill-matrix.yaml", "objective: < 10 s", "objective: soon", "/rows/2/objective"),
        ("drill-matrix.yaml", '"2027-02-01"', '"2026-02-01"', "review_by"),
        ("flags.yaml", "kind: kill", "kind: end", "flags.yaml"),
        ("missions.yaml", "{{ order }}", "{{ ordr }}", "{{ order }}"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place_and_a_remedy(
    folder: Path, file: str, old: str, new: str, said: str
) -> None:
    edit(folder / file, old, new)
    with pytest.raises(Problem) as caught:
        ready(folder)
    assert said in str(caught.value)


def test_a_receiver_without_a_secret_is_refused_with_the_line_that_makes_one(folder: Path) -> None:
    with pytest.raises(Problem, match="export DEMO_ALERT_TOKEN="):
        ready(folder, {})


def test_a_row_that_cannot_pass_is_said_and_refuses_nothing(folder: Path) -> None:
    edit(folder / "friday-plan.yaml", "{flag: toolTimeout, first: 1}", "{flag: toolTimeout, every: 1}")
    edit(folder / "friday-plan.yaml", "concurrent: 200", "concurrent: 100")
    edit(folder / "friday-plan.yaml", "kill:\n  capability: refund\n  for_s: 6\n", "")
    said = "\n".join(ready(folder).warnings)
    assert "row tool-success cannot pass" in said
    assert "row mission-latency cannot pass: the plan holds 100 in flight, and the row asks for 200" in said
    assert "row kill-switch cannot pass: refund is not killed in the plan" in said


def test_users_of_a_locust_file_who_wait_are_said_to_hold_fewer(folder: Path) -> None:
    (folder / "locustfile.py").write_text("")
    plan = (folder / "friday-plan.yaml").read_text()
    section = plan[plan.index("missions:") :].partition("\nflags:")[0]
    edit(
        folder / "friday-plan.yaml",
        section,
        "missions:\n  loads: [{run: locust, file: locustfile.py, users: 50}]\n  time_limit_s: 10",
    )
    assert any("50 users of locustfile.py hold fewer than 50" in line for line in ready(folder).warnings)


def test_the_arithmetic_of_the_alert_is_said_before_the_drill(folder: Path) -> None:
    for name, text in (("prometheus.yml", PROMETHEUS), ("rules.yml", RULES), ("alertmanager.yml", ALERTMANAGER)):
        (folder / name).write_text(text)
    edit(
        folder / "friday-plan.yaml",
        "seed: 7",
        "seed: 7\nalerting: {prometheus: prometheus.yml, alertmanager: alertmanager.yml, receiver: pager}",
    )
    said = "\n".join(line for line in ready(folder).warnings if "row detector-time" in line)
    assert "cannot pass" in said
    assert "10 s is impossible" in said
    assert "group_wait 30" in said


def test_compressed_phases_leave_limits_and_missions_as_they_are(folder: Path) -> None:
    got = ready(folder, compress=2.0)
    assert got.plan.phases.fault_s == 8
    assert "COMPRESSED 2x" in got.stamps
    assert got.plan.missions.concurrent == 200
    assert (
        ready(folder, compress="max").plan.phases.fault_s == 16 / 1.5
    )  # the alert's 10 s and 5 more set no bound here


def test_the_command_line_names_the_agent(folder: Path) -> None:
    got = ready(folder, cmd="python3 my agent.py")
    assert got.plan.worker is not None
    assert got.plan.worker.cmd == ("python3", "my", "agent.py")


def test_a_count_that_is_taken_over_is_one_from_the_beginning() -> None:
    tally = Tally(4)
    tally.take(sent=5, counts={"ok": 3, "failed": 1}, late_ns=7)
    assert (tally.sent, tally.done, tally.failed, tally.in_flight, tally.late_ns) == (5, 4, 1, 1, 7)
    tally.take(sent=9, counts={"ok": 3, "failed": 5}, late_ns=2)
    assert (tally.done, tally.failed, tally.late_ns) == (8, 5, 7)
    assert tally.recent_failed_ratio() == 1.0


def test_a_profile_is_compressed_with_the_phases_and_comes_as_fast(folder: Path) -> None:
    profile = (KIT / "artillery.yml").read_text()
    (folder / "artillery.yml").write_text(profile)
    edit(
        folder / "friday-plan.yaml",
        "- {run: missions,",
        "- {run: artillery, file: artillery.yml, max_arrivals: 200000}\n    - {run: missions,",
    )
    whole, shorter = ready(folder).understood.loads[0], ready(folder, compress=1.25).understood.loads[0]
    assert isinstance(whole, OwnLoad) and isinstance(shorter, OwnLoad)
    assert [one.for_s for one in shorter.arrivals] == [one.for_s / 1.25 for one in whole.arrivals]
    assert [one.per_s for one in shorter.arrivals] == [one.per_s for one in whole.arrivals]
