"""`drillmaster gate cutover` in real repositories: who set the times, who reviewed, and which plan is judged."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from drillmaster import cli
from drillmaster.gates._cases.cutover import BUDGET, DRILL, PROOF
from drillmaster.intake.cutover import record_digest
from drillmaster.signing import EVIDENCE, POLICY, sign
from drillmaster.strict import digest_bytes
from tests.e2e.repolab import ADA, BO, BOT, Keys, Repo

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git"), pytest.mark.needs("ssh-keygen")]

NOW, INSIDE = "2026-09-19T10:00:00Z", "2026-09-20T03:00:00Z"
PLAN = "cutover/plan.json"
BASE_PLAN: dict[str, Any] = {
    "plan_id": "cutover-ledger-2026-09-19",
    "service": "ledger-writer",
    "authors": {"draft": "free-lane-model", "timed_fields": "human:ada", "rollback_owner": "human:bo"},
    "traffic": {"initial_percent": 1, "step_percent": 4, "max_percent_before_freeze": 20, "error_budget_ppm": 50},
    "window": {
        "freeze_start_utc": "2026-09-20T02:00:00Z",
        "freeze_end_utc": "2026-09-20T06:00:00Z",
        "dual_write_required": True,
        "old_writer_delete_same_window": False,
    },
    "halt": {"on_checksum_mismatch": "halt", "on_retry_storm": "halt", "on_free_lane_author_for_timed_fields": "halt"},
    "idempotency": {"key_format": "human-pinned:ledger-v1", "author": "human:bo"},
    "controller": {"runtime": "pinned-paid-path", "free_server_forbidden": True},
}
LIMITS = """\
kind: policy
version: 1
source: docs/cutover-runbook.md
owner: Bo of payments
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
ROSTER = """\
kind: roster
version: 1
people:
  - {identity: ada, emails: [ada@example.com], teams: [payments]}
  - {identity: bo, emails: [bo@example.com], teams: [payments]}
  - {identity: cleo, emails: [cleo@example.com], teams: [payments]}
  - {identity: robot, emails: [robot@example.com], kind: bot}
"""
POLICY_FILE = ".drillmaster/cutover-policy.yaml"


class Said(NamedTuple):
    code: int
    out: str

    def missed(self) -> list[str]:
        """The ids of what did not pass."""
        return [check["id"] for check in json.loads(self.out)["checks"] if check["status"] != "pass"]

    def stamps(self) -> list[str]:
        stamps: list[str] = json.loads(self.out)["stamps"]
        return stamps


Gate = Callable[..., Said]


def plan(**changes: object) -> str:
    """The plan as text; `traffic__step_percent=5` changes one field."""
    loaded = copy.deepcopy(BASE_PLAN)
    for name, value in changes.items():
        group, _, field = name.partition("__")
        if field:
            loaded[group][field] = value
        else:
            loaded[group] = value
    return json.dumps(loaded, indent=1) + "\n"


@pytest.fixture
def gate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gate:
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))

    def run(repo: Repo, *args: str, now: str = NOW, file: str = PLAN) -> Said:
        monkeypatch.chdir(repo.path)
        with pytest.raises(SystemExit) as ended:
            cli.main(argv=["gate", "cutover", file, "--now", now, "--json", *args])
        told = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        assert "Traceback" not in told.err
        return Said(ended.value.code, told.out)

    return run


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def evidence(now_plan: str) -> dict[str, str]:
    drill = msgspec.structs.replace(DRILL, halted_by="bo", plan_digest="")
    drill = msgspec.structs.replace(drill, digest=record_digest(drill))
    proof = msgspec.structs.replace(PROOF, plan_digest=digest_bytes(now_plan.encode()))
    return {
        "cutover/halt-drill.json": msgspec.json.encode(drill).decode(),
        "cutover/error-budget.json": msgspec.json.encode(BUDGET).decode(),
        "cutover/freeze-proof.json": msgspec.json.encode(proof).decode(),
    }


def reviewed(repo: Repo, *people: str, path: str = PLAN) -> None:
    assert repo.keys is not None
    for who, second in zip(people, (False, True), strict=False):
        sign(repo.path / path, repo.keys.private(who), namespace=POLICY, second=second)


@pytest.fixture
def repo(tmp_path: Path, keys: Keys) -> Repo:
    """A base with people and a signed policy; on a branch a plan of Ada's that Bo and Cleo signed."""
    made = Repo(tmp_path / "repo", keys)
    made.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("ada", "bo", "cleo", "robot"),
            ".drillmaster/roster.yaml": ROSTER,
            POLICY_FILE: LIMITS,
        }
    )
    sign(made.path / POLICY_FILE, keys.private("bo"), namespace=POLICY)
    made.commit(message="sign the policy", by=BO)
    made.branch("change")
    made.commit({PLAN: plan()}, by=ADA, signed="ada", message="plan")
    reviewed(made, "bo", "cleo")
    made.commit(evidence(plan()), by=ADA, signed="ada", message="reviews and evidence")
    return made


def test_a_plan_with_everything_behind_it_is_accepted(repo: Repo, gate: Gate) -> None:
    said = gate(repo, "--base", "main")
    assert said.missed() == []
    assert said.code == 0


def test_inside_the_window_it_is_the_plan_that_was_accepted(repo: Repo, gate: Gate) -> None:
    accepted = digest_bytes(plan().encode())
    said = gate(repo, "--base", "main", "--digest", accepted, now=INSIDE)
    assert said.missed() == []
    assert gate(repo, "--base", "main", now=INSIDE).missed() == ["plan-digest"]
    repo.commit({PLAN: plan(traffic__step_percent=5)}, by=ADA, signed="ada")
    reviewed(repo, "bo", "cleo")
    repo.commit(message="reviewed again", signed="ada")
    said = gate(repo, "--base", "main", "--digest", accepted, now=INSIDE)
    assert said.missed() == ["plan-digest", "freeze-took"]
    assert said.code == 1


def test_a_plan_is_rejected_for_what_is_not_its_authors(repo: Repo, gate: Gate) -> None:
    for by, signed in ((ADA, None), (BO, "bo"), (ADA, "bo"), (BOT, "robot"), (BOT, "ada")):
        # Away and back: whoever set the value that stands has set it, whatever stood there once.
        repo.commit({PLAN: plan(traffic__step_percent=5)}, by=ADA, signed="ada")
        repo.commit({PLAN: plan()}, by=by, signed=signed)
        said = gate(repo, "--base", "main")
        assert "timed-fields-commit" in said.missed(), (by, signed)
        assert said.code == 1
    repo.commit({PLAN: plan(traffic__step_percent=5)}, by=BO, signed="bo")
    repo.commit({PLAN: plan()}, by=ADA, signed="ada")
    assert gate(repo, "--base", "main").missed() == []


def test_other_fields_may_be_anybodys(repo: Repo, gate: Gate) -> None:
    text = plan(plan_id="cutover-ledger-2")
    repo.commit({PLAN: text}, by=BOT, signed=None)
    reviewed(repo, "bo", "cleo")
    repo.commit(message="reviewed", by=ADA, signed="ada")
    assert gate(repo, "--base", "main").missed() == []


def test_a_co_author_whom_nobody_knows_is_found(repo: Repo, gate: Gate) -> None:
    text = plan(traffic__step_percent=5)
    message = "plan\n\nCo-authored-by: A model <model@example.net>"
    repo.commit({PLAN: text}, by=ADA, signed="ada", message=message)
    reviewed(repo, "bo", "cleo")
    assert gate(repo, "--base", "main").missed() == ["timed-fields-commit"]


def test_a_merge_sets_what_none_of_its_parents_had(repo: Repo, gate: Gate) -> None:
    repo.git("checkout", "-q", "-b", "other")
    repo.commit({PLAN: plan(plan_id="other")}, by=ADA, signed="ada")
    repo.git("checkout", "-q", "change")
    repo.commit({PLAN: plan(service="other")}, by=ADA, signed="ada")
    repo.git(
        "-c", "user.name=Bo", "-c", "user.email=bo@example.com", "merge", "-q", "-s", "ours", "--no-commit", "other"
    )
    repo.commit({PLAN: plan(traffic__max_percent_before_freeze=19)}, by=BO, signed="bo")
    reviewed(repo, "bo", "cleo")
    said = gate(repo, "--base", "main")
    assert "timed-fields-commit" in said.missed()
    assert "max_percent_before_freeze" in said.out


def test_a_merge_that_takes_one_side_leaves_its_author(repo: Repo, gate: Gate) -> None:
    repo.git("checkout", "-q", "-b", "other")
    repo.commit({PLAN: plan(traffic__step_percent=3)}, by=BO, signed="bo")
    repo.git("checkout", "-q", "change")
    repo.git(
        "-c", "user.name=Bo", "-c", "user.email=bo@example.com", "merge", "-q", "-s", "ours", "-m", "merge", "other"
    )
    assert gate(repo, "--base", "main").missed() == []


@pytest.mark.parametrize("people", [(), ("bo",), ("bo", "bo"), ("ada", "bo"), ("bo", "robot"), ("bo", "mallory")])
def test_two_others_have_to_have_signed(people: tuple[str, ...], repo: Repo, gate: Gate) -> None:
    for name in (f"{PLAN}.sig", f"{PLAN}.second.sig"):
        (repo.path / name).unlink()
    reviewed(repo, *people)
    repo.commit(message="other reviews", signed="ada")
    said = gate(repo, "--base", "main")
    assert said.missed() == ["reviewers"]
    assert said.code == 1


def test_remedies_name_the_plan_as_it_was_named(repo: Repo, gate: Gate) -> None:
    repo.commit({PLAN: plan(plan_id="another"), "cutover/halt-drill.json": None}, signed="ada")
    said = gate(repo, "--base", "main")
    mend = {check["id"]: check["remedy"] for check in json.loads(said.out)["checks"]}
    assert f"drillmaster policy sign {PLAN} --key KEY" in mend["reviewers"]
    assert f"drillmaster cutover rehearse --plan {PLAN}," in mend["halt-drill"]


def test_without_a_base_what_mends_it_is_the_base_and_no_second_roster(repo: Repo, gate: Gate) -> None:
    said = gate(repo)
    told = {check["id"]: check for check in json.loads(said.out)["checks"]}
    assert said.code == 2
    for id_ in ("roster", "timed-author-on-roster", "rollback-owner-on-roster", "key-author-on-roster", "halted-by"):
        assert told[id_]["status"] == "refused" and told[id_]["remedy"].startswith("add --base origin/main"), id_


def test_signatures_of_another_plan_are_none(repo: Repo, gate: Gate) -> None:
    repo.commit({PLAN: plan(plan_id="another")}, signed="ada")
    assert gate(repo, "--base", "main").missed() == ["reviewers"]


def test_signatures_under_evidence_are_none_under_a_plan(repo: Repo, gate: Gate, keys: Keys) -> None:
    sign(repo.path / PLAN, keys.private("bo"), namespace=EVIDENCE)
    assert gate(repo, "--base", "main").missed() == ["reviewers"]


def test_a_plan_that_was_not_committed_is_nobodys(repo: Repo, gate: Gate, tmp_path: Path) -> None:
    (repo.path / PLAN).write_text(plan(traffic__step_percent=5))
    assert {"committed", "reviewers"} <= set(gate(repo, "--base", "main").missed())
    (repo.path / "cutover/new.json").write_text(plan())
    assert {"committed", "timed-fields-commit"} <= set(gate(repo, "--base", "main", file="cutover/new.json").missed())
    outside = tmp_path / "plan.json"
    outside.write_text(plan())
    assert {"committed", "timed-fields-commit"} <= set(gate(repo, "--base", "main", file=str(outside)).missed())


def test_the_plan_of_a_change_that_is_not_checked_out_is_read_from_it(repo: Repo, gate: Gate) -> None:
    head = repo.git("rev-parse", "HEAD")
    repo.git("checkout", "-q", "main")
    assert not (repo.path / PLAN).exists()
    assert gate(repo, "--base", "main", "--head", head).missed() == []
    (repo.path / "cutover").mkdir()
    (repo.path / PLAN).write_text(plan(traffic__initial_percent=50))
    assert gate(repo, "--base", "main", "--head", head).missed() == []


def test_the_lists_of_the_change_are_not_asked(repo: Repo, gate: Gate, keys: Keys) -> None:
    repo.commit(
        {
            ".drillmaster/allowed_signers": keys.allowed("mallory", "eve"),
            ".drillmaster/roster.yaml": ROSTER.replace("ada", "mallory"),
            POLICY_FILE: LIMITS.replace("max_drill_age_s: 7776000", "max_drill_age_s: 31000000"),
        },
        by=ADA,
        signed="ada",
    )
    assert gate(repo, "--base", "main").missed() == ["gate-files"]


def test_a_shallow_clone_is_told_what_to_do(repo: Repo, gate: Gate, keys: Keys, tmp_path: Path) -> None:
    clone = Repo(tmp_path / "clone", keys)
    clone.git("remote", "add", "origin", f"file://{repo.path}")
    clone.git("fetch", "-q", "--depth", "1", "origin", "change")
    clone.git("checkout", "-q", "-b", "change", "FETCH_HEAD")
    said = gate(clone, "--base", "HEAD")
    assert said.code == 2
    assert "git fetch --unshallow origin" in said.out


def test_without_signers_author_lines_count_and_that_is_stamped(repo: Repo, gate: Gate) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({".drillmaster/allowed_signers": None})
    repo.branch("again")
    repo.commit({PLAN: plan(), **evidence(plan())}, by=ADA)
    said = gate(repo, "--base", "main")
    assert said.missed() == []
    assert {"AUTHOR LINES", "REVIEWS NOT CHECKED"} <= set(said.stamps())
    repo.commit({PLAN: plan(traffic__step_percent=5)}, by=BOT)
    assert gate(repo, "--base", "main").missed() == ["timed-fields-commit"]


def test_people_are_asked_for_where_the_base_knows_some_even_without_a_policy(repo: Repo, gate: Gate) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit({POLICY_FILE: None, f"{POLICY_FILE}.sig": None})
    repo.git("checkout", "-q", "-b", "again", "main")
    repo.commit({PLAN: plan(authors__rollback_owner="human:dora")}, by=ADA, signed="ada")
    reviewed(repo, "bo", "cleo")
    repo.commit(message="reviewed", signed="ada")
    said = gate(repo, "--base", "main")
    assert said.missed() == ["rollback-owner-on-roster"]
    assert {"NOTHING MEASURED", "UNPINNED"} <= set(said.stamps())


def test_a_record_with_a_bad_signature_is_refused_and_a_good_one_lifts_the_stamp(
    repo: Repo, gate: Gate, keys: Keys
) -> None:
    drill = repo.path / "cutover/halt-drill.json"
    assert "UNSIGNED halt-drill.json" in gate(repo, "--base", "main").stamps()
    sign(drill, keys.private("bo"), namespace=EVIDENCE)
    assert "UNSIGNED halt-drill.json" not in gate(repo, "--base", "main").stamps()
    for who, namespace in (("mallory", EVIDENCE), ("bo", POLICY)):
        sign(drill, keys.private(who), namespace=namespace)  # type: ignore[arg-type]  # one of both
        said = gate(repo, "--base", "main")
        assert said.code == 2
        assert "halt-drill" in said.out


def test_a_key_is_its_owners_by_whichever_of_its_names_the_roster_has(repo: Repo, gate: Gate, keys: Keys) -> None:
    lists = keys.allowed("ada", "bo", "cleo")
    for names, missed in (("ada@laptop.example,ada", []), ("ada,bo", ["timed-fields-commit"])):
        repo.git("checkout", "-q", "main")
        repo.commit({".drillmaster/allowed_signers": lists.replace("ada ", f"{names} ", 1)}, by=BO)
        repo.git("checkout", "-q", "change")
        assert gate(repo, "--base", "main").missed() == missed
