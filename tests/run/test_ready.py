"""From files to a plan that makes sense."""

import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.plan import Plan
from drillmaster.run.folder import make_folder, payload_sha256, plan_on_record
from drillmaster.run.ready import Options, Ready, base_urls, prepare_plan
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
        (Options(compress=1000.0), {}, "compress by"),
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


@pytest.mark.parametrize(
    ("upstream", "openai"),
    [
        ("https://api.openai.com", "http://p:1/v1"),
        ("https://api.openai.com/", "http://p:1/v1"),
        ("https://api.openai.com/v1", "http://p:1"),
        ("https://openrouter.ai/api/v1", "http://p:1"),
    ],
)
def test_each_sdk_gets_the_base_url_it_wants(upstream: str, openai: str) -> None:
    assert base_urls("http://p:1", upstream) == {
        "MODEL_BASE_URL": "http://p:1", "OPENAI_BASE_URL": openai, "ANTHROPIC_BASE_URL": "http://p:1",
    }  # fmt: skip


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


def test_the_payload_digest_changes_with_what_users_ask_and_with_nothing_else() -> None:
    digest = payload_sha256(plan())
    assert payload_sha256(plan(service="other")) == digest
    assert payload_sha256(plan(target__payloads=["a", "c"])) != digest
