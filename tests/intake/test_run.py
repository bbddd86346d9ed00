"""A run folder on disk, from its seal to the verdict on it."""

import json
from pathlib import Path

import pytest

from drillmaster import timeline
from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import judge_eviction, keep, stored
from drillmaster.verdict import Verdict
from tests.scene import LIMITS, POLICY, S, Scene

NOW_NS = parse_rfc3339("2026-12-01T00:00:00Z") or 0


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = Scene().write(tmp_path / "20261129T153000Z-1a2b")
    timeline.seal_run(folder, ManualClock())
    return folder


def judged(folder: Path, policy: Path | None = None, now_ns: int = NOW_NS) -> Verdict:
    return judge_eviction(open_run(folder), policy or folder / "policy.yaml", now_ns=now_ns)


def check(verdict: Verdict, key: str) -> tuple[str, str, str]:
    found = next(c for c in verdict.checks if c.id == key)
    return found.status, found.why, found.remedy


def test_a_sealed_run_passes_and_the_verdict_can_be_given_again_byte_for_byte(sealed: Path) -> None:
    verdict = judged(sealed)
    assert verdict.status == "pass", [c for c in verdict.checks if c.status != "pass"]
    keep(verdict, sealed)
    assert stored(sealed) == verdict == judged(sealed, now_ns=NOW_NS)


def test_a_run_that_is_not_sealed_is_refused_with_the_command_that_seals(tmp_path: Path) -> None:
    verdict = judged(Scene().write(tmp_path / "r"))
    assert verdict.status == "refused"
    assert check(verdict, "sealed")[2].startswith("drillmaster seal")


@pytest.mark.parametrize(
    "file", ["events/proxy.jsonl", "events/traffic.jsonl", "events/conductor.jsonl", "timeline.jsonl"]
)
def test_one_changed_byte_is_refused_and_named(sealed: Path, file: str) -> None:
    path = sealed / file
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"0", b"1", 1)
    path.write_bytes(b"".join(lines))
    verdict = judged(sealed)
    assert verdict.status == "refused"
    assert f"{file}:5" in check(verdict, "sealed")[1]


def test_a_dropped_line_and_two_swapped_ones_are_named(sealed: Path) -> None:
    path = sealed / "events/traffic.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:9] + lines[10:]))
    assert "events/traffic.jsonl:10" in check(judged(sealed), "sealed")[1]
    path.write_bytes(b"".join([*lines[:9], lines[10], lines[9], *lines[11:]]))
    assert "events/traffic.jsonl:1" in check(judged(sealed), "sealed")[1]


def test_a_worker_that_goes_on_writing_is_late_and_changes_nothing(sealed: Path) -> None:
    before = judged(sealed)
    with (sealed / "timeline.jsonl").open("a") as file:
        file.write('{"t":"2026-11-29T18:00:00Z","event":"unhandled_exception","id":"x","kind":"KeyError"}\n')
    after = judged(sealed)
    assert after.status == "pass"
    assert after.counts["late"] == 1
    assert before.counts["late"] == 0


def test_a_file_added_after_the_seal_is_refused_and_not_read(sealed: Path) -> None:
    (sealed / "events/more.jsonl").write_text("{}\n")
    status, why, _ = check(judged(sealed), "sealed")
    assert status == "refused"
    assert "events/more.jsonl" in why


def test_another_policy_than_the_one_the_drill_was_run_under_is_refused(sealed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(POLICY.replace("max_failed_ratio: 0.05", "max_failed_ratio: 0.5"))
    status, why, remedy = check(judged(sealed, other), "policy")
    assert status == "refused"
    assert "not the one" in why
    assert remedy


def test_the_same_policy_written_otherwise_is_the_same(sealed: Path, tmp_path: Path) -> None:
    same = tmp_path / "same.json"
    same.write_text(
        json.dumps(
            {
                "gates": [{"gate": "eviction", **LIMITS}],
                "owner": "payments-oncall",
                "review_by": "2027-02-28",
                "source": "runbook-2026-11",
                "version": 1,
                "kind": "policy",
            }
        )
    )
    assert judged(sealed, same).status == "pass"


def test_a_policy_past_its_review_is_refused(sealed: Path) -> None:
    verdict = judged(sealed, now_ns=NOW_NS + 365 * 86_400 * S)
    assert verdict.status == "refused"
    assert "review" in check(verdict, "policy")[1]


@pytest.mark.parametrize(
    ("cut", "put", "place"),
    [
        ("    max_fallback_s: 5.0\n", "", "/gates/0"),
        ("max_fallback_s: 5.0", "max_fallback_s: .nan", "/gates/0/max_fallback_s"),
        ("max_fallback_s: 5.0", 'max_fallback_s: "5"', "/gates/0/max_fallback_s"),
        ("max_fallback_s: 5.0", "max_fallback_s: true", "/gates/0/max_fallback_s"),
        ("max_fallback_s: 5.0", "max_fallback_s: 5.0\n    max_fallback_s: 900", "/gates/0/max_fallback_s"),
        ("max_failed_ratio: 0.05", "max_failed_ratio: 1", "max_failed_ratio"),
        ("max_failed_ratio: 0.05", "max_failed_ratio: 5", "max_failed_ratio"),
        ("failed_window: fault", "failed_window: off", "/gates/0/failed_window"),
        ("min_met: 3", "min_met: 3\n    mim_met: 3", "mim_met"),
        ("gate: eviction", "gate: canary-ish", "/gates"),
        ("kind: policy", "kind: plan", "/kind"),
    ],
)
def test_a_policy_that_decides_nothing_is_named_by_its_pointer(
    sealed: Path, tmp_path: Path, cut: str, put: str, place: str
) -> None:
    bad = tmp_path / "bad.yaml"
    assert cut in POLICY
    bad.write_text(POLICY.replace(cut, put))
    with pytest.raises(Problem) as caught:
        judged(sealed, bad)
    assert place in str(caught.value)
    assert "bad.yaml" in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "file", "empty", "endless", "nul"])
def test_what_is_no_run_folder_is_a_problem_with_a_remedy(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("{}")
    elif kind == "empty":
        path.mkdir()
    elif kind == "endless":
        path = tmp_path / ("x" * 5000)
    elif kind == "nul":
        path = tmp_path / "x\0y"
    with pytest.raises(Problem) as caught:
        open_run(path)
    assert caught.value.remedy


def test_no_verdict_yet_names_the_command_that_makes_one(sealed: Path) -> None:
    with pytest.raises(Problem) as caught:
        stored(sealed)
    assert "drillmaster gate eviction" in caught.value.remedy


@pytest.mark.parametrize("file", ["events/proxy.jsonl", "timeline.jsonl", "policy.yaml"])
def test_a_sealed_file_that_is_gone_is_named(sealed: Path, tmp_path: Path, file: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    (sealed / file).unlink()
    status, why, _ = check(judged(sealed, policy), "sealed")
    assert status == "refused"
    assert f"{file} missing" in why
