"""From files to a plan that makes sense."""

import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.plan import Plan
from drillmaster.run.folder import make_folder, payload_sha256, plan_on_record, plan_text_on_record
from drillmaster.run.progress import Silent
from drillmaster.run.ready import Options, Ready, check_program, prepare_plan
from drillmaster.scaffold import template
from drillmaster.screen import MARK
from tests.scene import POLICY
from tests.test_sanity import plan

NOW_NS = parse_rfc3339("2026-11-29T15:00:00Z") or 0
PLAN: dict[str, Any] = {
    "kind": "plan",
    "drill": "eviction",
    "service": "answers",
    "seats": {"lead": "Ada", "scribe": "Ben", "verifier": "Cem"},
    "target": {"url": "http://127.0.0.1:8000/answer"},
    "traffic": {"every_s": 5, "time_limit_s": 3},
    "proxy": {"upstream": "http://127.0.0.1:9000"},
    "policy": "policy.yaml",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


def ready(folder: Path, options: Options | None = None, **over: Any) -> Ready:
    (folder / "plan.json").write_text(json.dumps(PLAN | over))
    return prepare_plan(folder / "plan.json", options or Options(), wall_ns=NOW_NS)


def test_a_plan_is_read_with_its_policy_beside_it(folder: Path) -> None:
    got = ready(folder)
    assert got.plan.phases.fault_s == 900
    assert got.numbers.max_failed_ratio == got.gate.max_failed_ratio == 0.05
    assert got.policy_sha256.startswith("sha256:")
    assert got.stamps == () and not got.rehearsal


@pytest.mark.parametrize(
    ("options", "over", "stamps"),
    [
        (Options(rehearsal=True), {}, ("REHEARSAL",)),
        (Options(), {"seats": {"lead": "Ada", "scribe": "", "verifier": "Cem"}}, ("REHEARSAL",)),
        (Options(), {"seats": {}}, ("REHEARSAL",)),
        (Options(), {"seats": {"lead": None, "scribe": None, "verifier": None}}, ("REHEARSAL",)),  # blanks left open
        (Options(rehearsal=True), {"seats": {"lead": "A", "scribe": "A", "verifier": "A"}}, ("REHEARSAL",)),
        (Options(stamps=("DEMO",)), {}, ("DEMO",)),
        (Options(compress=10.0, rehearsal=True), {}, ("COMPRESSED 10x", "REHEARSAL")),
        (Options(compress=1.0), {}, ()),
    ],
)
def test_what_is_not_the_real_thing_is_stamped(
    folder: Path, options: Options, over: dict[str, Any], stamps: tuple[str, ...]
) -> None:
    assert ready(folder, options, **over).stamps == stamps


def test_options_go_over_the_plan(folder: Path) -> None:
    got = ready(folder, Options(mode="hang", cmd="python 'my agent.py' --x"), fault={"mode": "reset"})
    assert got.plan.fault.mode == "hang"
    assert got.plan.worker is not None and got.plan.worker.cmd == ("python", "my agent.py", "--x")


@pytest.mark.parametrize(
    ("options", "over", "word"),
    [
        (Options(mode="rset"), {}, "did you mean reset"),
        (Options(cmd="'"), {}, "--cmd"),
        (Options(cmd="  "), {}, "--cmd"),
        (Options(compress=1000.0), {}, "60x at most"),
        (Options(), {"policy": "nowhere.yaml"}, "nowhere.yaml"),
        (Options(), {"fault": {"mode": "503", "params": {"speed": 1}}}, "fault 503"),
        (Options(), {"servise": "x"}, "servise"),
        (Options(), {"seats": {"lead": "A", "scribe": "A", "verifier": "B"}}, "--rehearsal"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_remedy(
    folder: Path, options: Options, over: dict[str, Any], word: str
) -> None:
    with pytest.raises(Problem) as refused:
        ready(folder, options, **over)
    assert word in str(refused.value)


def test_a_plan_without_a_spend_says_what_its_cap_is(folder: Path) -> None:
    got = ready(folder)
    assert got.plan.spend is not None and got.plan.spend.max_requests == 1820
    assert any("1820" in warning for warning in got.warnings)


def test_compression_as_far_as_it_fits_says_what_it_comes_to(folder: Path) -> None:
    got = ready(folder, Options(compress="max"), traffic={"every_s": 5, "time_limit_s": 30})
    assert got.stamps == ("COMPRESSED 29x",)
    assert any("compressed 29x" in line and "times as many a second" in line for line in got.said)
    none = ready(folder, Options(compress="max"), traffic={"every_s": 5, "time_limit_s": 1000})
    assert none.stamps == () and any("full length" in line for line in none.said)


@pytest.mark.parametrize("mode", [503, "503"])
def test_a_fault_of_digits_needs_no_quotes(folder: Path, mode: object) -> None:
    got = ready(folder, fault={"mode": mode})
    assert got.plan.fault.mode == "503"
    assert plan_on_record(got.plan)["fault"]["mode"] == "503"


@pytest.mark.parametrize("mode", [True, 503.0, None, [503]])
def test_a_fault_is_no_other_kind_of_value(folder: Path, mode: object) -> None:
    with pytest.raises(Problem, match="/fault/mode"):
        ready(folder, fault={"mode": mode})


class Heard(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)


def test_every_blank_of_plan_and_policy_is_named_at_once_with_its_example(tmp_path: Path) -> None:
    for name, text in template("eviction").items():
        (tmp_path / name).write_text(text)
    heard = Heard()
    with pytest.raises(Problem) as refused:
        prepare_plan(tmp_path / "eviction-plan.yaml", Options(progress=heard), wall_ns=NOW_NS)
    for pointer in ("/service", "/target/url", "/proxy/upstream", "/gates/0/max_fallback_s", "/source", "/review_by"):
        assert pointer in refused.value.found
    assert refused.value.found.startswith("15 blanks")  # 4 of the plan but for its seats, 11 of the policy
    assert "/seats" not in refused.value.found
    said = "\n".join(heard.lines)
    assert "eviction-policy.yaml: 11 to fill in" in said and "such as runbook-2026-11" in said


def test_a_blank_that_is_alone_is_named_alone(folder: Path) -> None:
    with pytest.raises(Problem) as refused:
        ready(folder, service=None)
    assert refused.value.found == "1 blank: /service"


def test_a_policy_where_a_plan_belongs_is_called_what_it_is(folder: Path) -> None:
    (folder / "plan.yaml").write_text("kind: plan")
    with pytest.raises(Problem) as refused:
        prepare_plan(folder / "policy.yaml", Options(), wall_ns=NOW_NS)
    assert refused.value.found == "a policy" and refused.value.remedy.endswith(f"run eviction {folder / 'plan.yaml'}")
    with pytest.raises(Problem, match="found a plan, wanted a policy"):
        ready(folder, policy="plan.json")


@pytest.mark.parametrize(
    ("was", "now", "field"),
    [
        ("2027-02-28", "2026-11-28", "/review_by"),
        ("runbook-2026-11", "a chat with the model", "/source"),
        ("payments-oncall", "' '", "/owner"),
    ],
)
def test_a_policy_that_the_gate_would_refuse_is_refused_before_the_drill(
    folder: Path, was: str, now: str, field: str
) -> None:
    (folder / "policy.yaml").write_text(POLICY.replace(was, now))
    with pytest.raises(Problem) as refused:
        ready(folder)
    assert refused.value.place.endswith(f"policy.yaml: {field}")


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ({"cmd": ["no-such-program"]}, "no-such-program: not on PATH"),
        ({"cmd": ["./no-such-program"]}, "./no-such-program: no program there"),
        ({"cmd": ["./policy.yaml"]}, "no program there"),  # a file, and none that can be started
        ({"cmd": ["sh"], "cwd": "nowhere"}, "no folder"),
        ({"cmd": ["sh"], "env": {"PATH": "/nowhere"}}, "not on PATH"),
    ],
)
def test_a_worker_that_cannot_be_started_is_refused_before_anything_starts(
    folder: Path, worker: dict[str, Any], said: str
) -> None:
    got = ready(folder, worker=worker)
    with pytest.raises(Problem) as refused:
        check_program(got)
    assert said in refused.value.found


def test_a_worker_that_is_there_is_let_by(folder: Path) -> None:
    (folder / "agent").write_text("#!/bin/sh\n")
    (folder / "agent").chmod(0o755)
    check_program(ready(folder))
    check_program(ready(folder, worker={"cmd": ["./agent"]}))
    check_program(ready(folder, worker={"cmd": ["agent"], "env": {"PATH": f"{folder}:${{PATH}}"}}))


def test_python_where_only_python3_is_gets_the_name_that_works(folder: Path) -> None:
    (folder / "python3").write_text("#!/bin/sh\n")
    (folder / "python3").chmod(0o755)
    with pytest.raises(Problem) as refused:
        check_program(ready(folder, worker={"cmd": ["python", "agent.py"]}), {"PATH": str(folder)})
    assert refused.value.found == "python: not on PATH" and refused.value.remedy == "write python3 for python"


def test_a_run_s_folder_is_made_once_and_knows_its_zero(tmp_path: Path) -> None:
    clock = ManualClock()
    one, other = make_folder(tmp_path / "runs", clock), make_folder(tmp_path / "runs", clock)
    assert one.path != other.path and one.path.name.startswith("20260101T000000Z-")
    assert one.timeline.read_bytes() == b"" and one.ballast.stat().st_size > 0
    one.drop_ballast()
    one.drop_ballast()
    assert not one.ballast.exists()


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(Problem, match="--runs"):
        make_folder(tmp_path / "runs", ManualClock())


def test_no_key_gets_into_the_manifest() -> None:
    secret = "sk-" + "proj-" + "q8Zr5TnW2yKd" * 4
    this: Plan = plan(
        target__headers={"Authorization": "Bearer ${KEY}", "X-Tenant": secret},
        worker={"cmd": ["agent", "--key", secret], "env": {"TOKEN": secret}},
    )
    text = json.dumps(plan_on_record(this))
    assert secret not in text
    assert "X-Tenant" in text and "TOKEN" in text


def test_a_secret_in_two_words_or_by_its_name_gets_into_no_record() -> None:
    this: Plan = plan(
        target__url="http://127.0.0.1:8000/answer?q={payload}&n={nonce}&sig=opaque",
        target__headers={"X-Tenant": "tenant-horse"},
        worker={
            "cmd": [
                "agent",
                "--password",
                "horse",
                "--api-key",
                "battery",
                "-p",
                "staple",
                "--port",
                "8000",
                "-p",
                "80:80",
            ],
            "env": {"DB": "correct", "MODE": "on", "URL": "${MODEL_BASE_URL}"},
        },
        fault={"mode": "reset", "params": {"api_key": "stable"}},
    )
    record = plan_on_record(this)
    assert record["worker"]["cmd"] == [
        "agent", "--password", MARK, "--api-key", MARK, "-p", MARK, "--port", "8000", "-p", "80:80",
    ]  # fmt: skip
    assert record["target"]["url"] == f"http://127.0.0.1:8000/answer?q={{payload}}&n={{nonce}}&sig={MARK}"
    assert record["fault"]["params"] == {"api_key": MARK}
    text = """\
target: {url: "http://127.0.0.1:8000/answer?q={payload}&sig=opaque", headers: {X-Tenant: tenant-horse}}
worker:
  cmd:
    - agent
    - --password
    - horse
    - "--api-key"
    - 'battery'
    - -p
    - staple
  env: {DB: correct, MODE: on, URL: "${MODEL_BASE_URL}"}  # horses stay
"""
    kept = plan_text_on_record(text, this)
    for secret in ("horse\n", "battery", "staple", "tenant-horse", "correct", "opaque"):
        assert secret not in kept
    for said in ("q={payload}", "MODE: on", "${MODEL_BASE_URL}", "horses stay", "    - -p\n"):
        assert said in kept


def test_the_payload_digest_changes_with_what_users_ask_and_with_nothing_else() -> None:
    digest = payload_sha256(plan())
    assert payload_sha256(plan(service="other")) == digest
    assert payload_sha256(plan(target__payloads=["a", "c"])) != digest
