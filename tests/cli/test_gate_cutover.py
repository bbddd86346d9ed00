"""`drillmaster gate cutover`: plans from files, exit codes, and what is printed."""

import copy
import json
import os
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

from drillmaster import cli
from drillmaster.gates._cases.cutover import DRILL
from drillmaster.intake.blanks import blanks, template
from drillmaster.intake.cutover import record_digest
from drillmaster.judge import decode_gate, load_policy
from drillmaster.scaffold import fill
from drillmaster.strict import digest_bytes
from drillmaster.strict.yamltext import strict_yaml

PLAN: dict[str, Any] = {
    "plan_id": "cutover-ledger-2026-09-19",
    "service": "ledger-writer",
    "authors": {
        "draft": "free-lane-model",
        "timed_fields": "human:sre-oncall",
        "rollback_owner": "human:payments-tl",
    },
    "traffic": {"initial_percent": 1, "step_percent": 4, "max_percent_before_freeze": 20, "error_budget_ppm": 50},
    "window": {
        "freeze_start_utc": "2026-09-20T02:00:00Z",
        "freeze_end_utc": "2026-09-20T06:00:00Z",
        "dual_write_required": True,
        "old_writer_delete_same_window": False,
    },
    "halt": {"on_checksum_mismatch": "halt", "on_retry_storm": "halt", "on_free_lane_author_for_timed_fields": "halt"},
    "idempotency": {"key_format": "human-pinned:ledger-v1", "author": "human:payments-tl"},
    "controller": {"runtime": "pinned-paid-path", "free_server_forbidden": True},
}
NOW = "2026-09-19T10:00:00Z"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))


class Said(NamedTuple):
    exit_code: int
    output: str


class Runs(Protocol):
    def __call__(self, *args: str, now: str = NOW) -> Said: ...


@pytest.fixture
def gate(capsys: pytest.CaptureFixture[str]) -> Runs:
    def run(*args: str, now: str = NOW) -> Said:
        with pytest.raises(SystemExit) as ended:
            cli.main(argv=["gate", "cutover", *args, "--now", now])
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, told.out + told.err)

    return run


def write(loaded: object, name: str = "plan.json") -> str:
    Path(name).write_text(loaded if isinstance(loaded, str) else json.dumps(loaded))
    return name


def test_the_articles_plan_is_accepted_in_its_words(gate: Runs) -> None:
    said = gate(write(PLAN))
    assert said.exit_code == 0, said.output
    assert "cutover plan accepted: timed fields are pinned\n" in said.output
    assert "UNPINNED" in said.output
    assert "PLAN ALONE" in said.output
    assert "--digest sha256:" in said.output


def test_a_rejected_plan_exits_1_with_the_articles_words(gate: Runs) -> None:
    plan = copy.deepcopy(PLAN)
    plan["halt"]["on_checksum_mismatch"] = "retry"
    said = gate(write(plan))
    assert said.exit_code == 1
    assert "cutover plan rejected:\n- checksum mismatch must halt, not retry\n" in said.output
    assert "accepted" not in said.output


def test_a_plan_of_another_shape_exits_2_and_with_the_articles_codes_1(gate: Runs) -> None:
    name = write({**PLAN, "feature_flag_default": "on"})
    assert gate(name).exit_code == 2
    said = gate(name, "--exit-map", "articles")
    assert said.exit_code == 1
    assert "/feature_flag_default" in said.output


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "{",
        "not json",
        "\ufeff{}",
        json.dumps(PLAN) + "x",
        json.dumps(PLAN).replace('"service"', '"plan_id"'),
        json.dumps(PLAN).replace("50", "NaN"),
        json.dumps(PLAN).replace("50", "1e999"),
        json.dumps(PLAN).replace("50", "9" * 400),
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("mapped", [(), ("--exit-map", "articles")])
def test_what_is_no_json_exits_2_without_a_trace(text: str, mapped: tuple[str, ...], gate: Runs) -> None:
    said = gate(write(text), *mapped)
    assert said.exit_code == 2
    assert "accepted" not in said.output
    assert "rejected" not in said.output
    assert "Traceback" not in said.output


@pytest.mark.parametrize("text", ["[]", "null", "1", '"plan"', "{}"])
def test_json_that_is_no_plan_exits_2(text: str, gate: Runs) -> None:
    said = gate(write(text))
    assert said.exit_code == 2
    assert "accepted" not in said.output


def test_what_is_no_file_exits_2(gate: Runs) -> None:
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    for name in ("missing.json", "folder", "loop"):
        said = gate(name)
        assert said.exit_code == 2
        assert "accepted" not in said.output
    assert gate().exit_code == 2
    Path("bytes.json").write_bytes(b"\xff\xfe{}")
    assert gate("bytes.json").exit_code == 2


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "abc", "sha256:" + "A" * 64, "sha256:" + "0" * 63, "md5:" + "0" * 32]
)
def test_a_digest_that_is_none_is_refused(digest: str, gate: Runs) -> None:
    assert gate(write(PLAN), "--digest", digest).exit_code == 2


def test_a_plan_that_changed_since_it_was_accepted_is_rejected(gate: Runs) -> None:
    said = gate(write(PLAN))
    digest = said.output.partition("add --digest ")[2].split()[0]
    inside = "2026-09-20T03:00:00Z"
    assert gate("plan.json", "--digest", digest, now=inside).exit_code == 0
    assert "DIGEST NOT NAMED" in gate("plan.json", now=inside).output
    Path("plan.json").write_text(json.dumps(PLAN) + " ")
    said = gate("plan.json", "--digest", digest, now=inside)
    assert said.exit_code == 1
    assert "was accepted" in said.output


def test_a_policy_that_is_named_and_not_there_is_no_reason_to_judge_the_plan_alone(gate: Runs) -> None:
    assert gate(write(PLAN), "--policy", "policy.yaml").exit_code == 2
    Path(".drillmaster").mkdir()
    Path(".drillmaster/cutover-policy.yaml").symlink_to("nowhere")
    assert gate("plan.json").exit_code == 2


POLICY = """\
kind: policy
version: 1
source: docs/cutover-runbook.md
owner: Bea of payments
review_by: 2026-12-31
gates:
  - gate: cutover
    service: ledger-writer
    max_initial_percent: 5
    max_step_percent: 5
    max_percent_before_freeze: 20
    max_error_budget_ppm: 100
    min_window_s: 3600
    max_window_s: 21600
    max_budget_age_s: 604800
    max_rung_s: 3600
    max_drill_age_s: 7776000
    max_detection_s: 60
    max_recovery_s: 300
    max_freeze_proof_age_s: 600
    rollback_team: payments
    runtimes: [pinned-paid-path]
"""


def test_a_policy_without_a_base_is_refused_and_says_what_is_missing(gate: Runs) -> None:
    Path("policy.yaml").write_text(POLICY)
    said = gate(write(PLAN), "--policy", "policy.yaml")
    assert said.exit_code == 2
    for text in ("add --base origin/main", "there is no error-budget.json", "drillmaster cutover rehearse", "TREE"):
        assert text in said.output


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "", json.dumps({**msgspec.to_builtins(DRILL), "recovery_s": 1.0}), json.dumps({"kind": "halt-drill"})],
)
def test_a_record_that_was_edited_or_is_none_exits_2(text: str, gate: Runs) -> None:
    Path("policy.yaml").write_text(POLICY)
    Path("halt-drill.json").write_text(text)
    said = gate(write(PLAN), "--policy", "policy.yaml")
    assert said.exit_code == 2
    assert "halt-drill.json" in said.output
    assert "PASS" not in said.output


def test_a_record_whose_digest_is_its_own_is_read(gate: Runs) -> None:
    Path("policy.yaml").write_text(POLICY)
    drill = msgspec.structs.replace(DRILL, digest=record_digest(DRILL))
    Path("elsewhere.json").write_bytes(msgspec.json.encode(drill))
    said = gate(write(PLAN), "--policy", "policy.yaml", "--drill", "elsewhere.json")
    assert "PASS drift was found within 60 s" in said.output
    assert "UNSIGNED halt-drill.json" in said.output


def test_the_template_that_init_writes_is_a_policy_once_its_blanks_are_filled() -> None:
    text = template("cutover")["cutover-policy.yaml"]
    examples = blanks(text)
    assert all(examples.values())
    loaded: dict[str, object] = {
        pointer: strict_yaml(f"x: {example}\n")[0]["x"] for pointer, example in examples.items()
    }
    policy, _ = load_policy(fill(text, loaded).encode(), place="policy.yaml", fmt="yaml")
    assert decode_gate(policy, "cutover", place="policy.yaml")


def test_a_policy_with_blanks_is_refused(gate: Runs) -> None:
    Path("policy.yaml").write_text(template("cutover")["cutover-policy.yaml"])
    assert gate(write(PLAN), "--policy", "policy.yaml").exit_code == 2


def test_a_plan_that_is_a_pipe_is_refused_without_waiting(gate: Runs) -> None:
    os.mkfifo("plan.json")
    assert gate("plan.json").exit_code == 2


def test_a_huge_plan_is_refused(gate: Runs) -> None:
    Path("plan.json").write_bytes(b" " * (1 << 21))
    assert gate("plan.json").exit_code == 2


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github", "markdown"])
def test_a_plan_with_hostile_text_is_told_in_every_form(form: str, gate: Runs) -> None:
    plan = {**PLAN, "service": "x]]>&<\x1b[31m::error::|`@all\u202e", "\x1b[0m": 1}
    said = gate(write(plan), "--format", form)
    assert said.exit_code == 2
    assert "\x1b" not in said.output
    assert "\u202e" not in said.output


def test_the_evidence_is_all_that_was_read(gate: Runs) -> None:
    Path("policy.yaml").write_text(POLICY)
    name = write(PLAN)
    told = set()
    for rows in (None, 2000, 2001):
        if rows is not None:
            drill = msgspec.structs.replace(DRILL, rows=rows)
            drill = msgspec.structs.replace(drill, digest=record_digest(drill))
            Path("halt-drill.json").write_bytes(msgspec.json.encode(drill))
        said = json.loads(gate(name, "--policy", "policy.yaml", "--json").output)
        told.add(said["evidence_digest"])
        assert digest_bytes(Path(name).read_bytes()) in said["headline"][0]
    assert len(told) == 3
