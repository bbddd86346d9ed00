"""The last change of thresholds by the real git, and what the gate makes of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.errors import Refused
from drillmaster.intake.change import LastChange, last_change
from drillmaster.intake.thresholds import AFTER, UNCOMMITTED, kept_text
from drillmaster.intake.verdicts import keep
from drillmaster.load.showing import judged_again, keep_thresholds
from drillmaster.passports import judge_run
from drillmaster.verdict import Verdict
from tests.interviewed import POLICY, sealed

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]
NOW_NS = 1_796_115_600_000_000_000  # 2026-12-01
ADA, BEA, CEM = "Ada <ada@example.com>", "Bea <bea@example.com>", "Cem <cem@example.com>"


def git(folder: Path, *args: str) -> str:
    who = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, who: str, message: str = "change", **files: str) -> str:
    """Write files (`__` is a dot) and commit them; the commit's name."""
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
        git(folder, "add", "-f", path.name)
    git(folder, "commit", "-q", "-m", message, f"--author={who}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def gate(tree: Path, run_commit: str | None, **more: object) -> Verdict:
    code = None if run_commit is None else {"commit": run_commit, "dirt_sha256": None}
    run = sealed(tree / "runs", code=code, **more)  # type: ignore[arg-type]  # fields of its manifest
    return judge_run(run, tree / "policy.yaml", now_ns=NOW_NS).verdict


def check(verdict: Verdict) -> str:
    [found] = [one for one in verdict.checks if one.id == "thresholds-apart"]
    return f"{found.status}: {found.title}: {found.why}"


def test_the_readers_own_commit_passes_with_a_name(tree: Path) -> None:
    commit(tree, ADA, plan__yaml="a: 1\n")
    run = commit(tree, BEA, policy__yaml=POLICY)
    verdict = gate(tree, run)
    assert verdict.status == "pass" and verdict.stamps == ()
    assert f"somebody else than the Driver: {BEA}, commit {run[:12]}" in check(verdict)


def test_thresholds_that_the_driver_committed_last_are_refused(tree: Path) -> None:
    commit(tree, BEA, policy__yaml=POLICY)
    run = commit(tree, ADA, policy__yaml=POLICY.replace("p95_s: 3", "p95_s: 300"))
    verdict = gate(tree, run)
    assert verdict.status == "refused" and verdict.headline[-1].startswith("REFUSED: thresholds-apart")
    assert f"Ada, the Driver, changed them last ({ADA}, commit {run[:12]})" in check(verdict)


def test_a_driver_who_wrote_along_is_one_too(tree: Path) -> None:
    run = commit(tree, BEA, f"sign\n\nCo-authored-by: {ADA}", policy__yaml=POLICY)
    assert gate(tree, run).status == "refused"


def test_thresholds_changed_with_the_plan_in_the_commit_that_runs_are_refused(tree: Path) -> None:
    commit(tree, CEM, policy__yaml=POLICY, plan__yaml="a: 1\n")
    run = commit(tree, CEM, policy__yaml=POLICY + "# more\n", plan__yaml="a: 2\n")
    verdict = gate(tree, run)
    assert verdict.status == "refused"
    assert "they changed in the commit that was run, together with other files of it" in check(verdict)


def test_a_commit_of_thresholds_with_their_pin_signature_and_a_page_is_one_of_thresholds_alone(tree: Path) -> None:
    commit(tree, ADA, plan__yaml="a: 1\n")
    (tree / "policy.yaml.sig").write_text("x")
    git(tree, "add", "policy.yaml.sig")
    run = commit(tree, CEM, policy__yaml=POLICY, notes__md="why\n")
    assert gate(tree, run).status == "pass"


def test_thresholds_that_are_older_than_the_commit_pass_whatever_came_with_them(tree: Path) -> None:
    commit(tree, CEM, policy__yaml=POLICY, plan__yaml="a: 1\n")
    run = commit(tree, ADA, plan__yaml="a: 2\n")
    assert gate(tree, run).status == "pass"


def test_thresholds_that_changed_after_the_run_are_stamped(tree: Path) -> None:
    commit(tree, BEA, policy__yaml=POLICY)
    run = commit(tree, ADA, plan__yaml="a: 1\n")
    commit(tree, BEA, policy__yaml=POLICY + "# looser\n")
    verdict = gate(tree, run)
    assert (verdict.status, verdict.stamps) == ("pass", (AFTER,))
    assert "after the run was made" in check(verdict)


def test_a_branch_that_parted_from_the_run_counts_as_after(tree: Path) -> None:
    commit(tree, BEA, policy__yaml=POLICY)
    git(tree, "checkout", "-q", "-b", "other")
    run = commit(tree, ADA, plan__yaml="a: 1\n")
    git(tree, "checkout", "-q", "main")
    commit(tree, BEA, policy__yaml=POLICY + "# looser\n")
    assert gate(tree, run).stamps == (AFTER,)


@pytest.mark.parametrize("how", ["edited", "untracked", "ignored", "staged"])
def test_thresholds_as_nobody_committed_them_are_stamped(tree: Path, how: str) -> None:
    run = commit(tree, ADA, plan__yaml="a: 1\n")
    if how in ("edited", "staged"):
        run = commit(tree, BEA, policy__yaml=POLICY + "# once\n")
    if how == "ignored":
        run = commit(tree, ADA, __gitignore="policy.yaml\n")
    (tree / "policy.yaml").write_text(POLICY)
    if how == "staged":
        git(tree, "add", "policy.yaml")
    verdict = gate(tree, run)
    assert (verdict.status, verdict.stamps) == ("pass", (UNCOMMITTED,))


def test_where_git_cannot_say_it_is_told_and_not_held_against_anybody(tree: Path, tmp_path: Path) -> None:
    commit(tree, ADA, policy__yaml=POLICY)
    commit(tree, BEA, plan__yaml="a: 1\n")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tree}", str(shallow))
    assert last_change(shallow / "policy.yaml") is None
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "policy.yaml").write_text(POLICY)
    assert last_change(alone / "policy.yaml") is None
    verdict = gate(alone, "0" * 40)
    assert verdict.status == "pass" and "git does not say who changed the thresholds" in check(verdict)


@pytest.mark.parametrize("at", [None, "f" * 40, "HEAD", "--all", "main"])
def test_a_run_of_no_known_commit_has_no_order(tree: Path, at: str | None) -> None:
    name = commit(tree, BEA, policy__yaml=POLICY)
    assert last_change(tree / "policy.yaml", at=at) == LastChange(commit=name, authors=(BEA,))


def test_a_link_is_followed_to_the_file_that_was_committed(tree: Path, tmp_path: Path) -> None:
    name = commit(tree, ADA, policy__yaml=POLICY)
    link = tmp_path / "policy.yaml"
    link.symlink_to(tree / "policy.yaml")
    found = last_change(link)
    assert found is not None and (found.commit, found.authors) == (name, (ADA,))


@pytest.mark.parametrize("name", ["a b.yaml", "-p.yaml", "ä.yaml", "[x].yaml", ":x.yaml"])
def test_a_file_by_any_name_is_the_one_that_is_meant(tree: Path, name: str) -> None:
    commit(tree, BEA, xy="1")
    (tree / name).write_text(POLICY)
    git(tree, "add", "--", f"./{name}")
    made = commit(tree, ADA)
    found = last_change(tree / name, at=made)
    assert found is not None and (found.commit, found.authors, found.alone, found.when) == (made, (ADA,), True, "same")


def test_a_mailmap_of_the_tree_renames_nobody(tree: Path) -> None:
    commit(tree, BEA, __mailmap="Bea <bea@example.com> Ada <ada@example.com>\n")
    run = commit(tree, ADA, policy__yaml=POLICY)
    assert gate(tree, run).status == "refused"


def test_in_a_rehearsal_it_is_told_alone(tree: Path) -> None:
    run = commit(tree, ADA, policy__yaml=POLICY, plan__yaml="a: 1\n")
    verdict = gate(tree, run, stamps=("REHEARSAL",))
    assert verdict.status == "pass" and "as a rehearsal may have it" in check(verdict)


def test_what_would_be_refused_for_it_is_refused_before_any_load(tree: Path) -> None:
    seats = {"driver": "Ada", "reader": "Bea", "recorder": "Cem"}
    plan = {
        "kind": "plan",
        "drill": "interview",
        "job": "x",
        "target": {"url": "http://127.0.0.1:9/"},
        "levels": [1, 4],
        "seats": seats,
    }
    commit(tree, ADA, plan__json=json.dumps(plan), policy__yaml=POLICY)
    typed = [sys.executable, "-m", "drillmaster", "interview", "plan.json", "--policy", "policy.yaml"]
    done = subprocess.run(typed, cwd=tree, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and not (tree / "runs").exists()
    assert "found Ada, the Driver, changed them last" in done.stderr
    assert "have the Reader read policy.yaml" in done.stderr


def test_what_git_said_when_the_gate_judged_is_said_by_every_report_after(tree: Path) -> None:
    run_commit = commit(tree, BEA, policy__yaml=POLICY)
    run = sealed(tree / "runs", code={"commit": run_commit, "dirt_sha256": None})
    judged = judge_run(run, tree / "policy.yaml", now_ns=NOW_NS)
    keep_thresholds(tree / "policy.yaml", run, judged.changed)
    keep(judged.verdict, run)
    commit(tree, ADA, policy__yaml=POLICY + "# more\n")
    again = judged_again(run, now_ns=NOW_NS + 10**9)
    assert again.verdict == judged.verdict and again.changed == judged.changed
    (run / "thresholds" / "policy.yaml.git.json").write_bytes(kept_text(None))
    with pytest.raises(Refused, match="do not give"):
        judged_again(run, now_ns=NOW_NS)
    (run / "thresholds" / "policy.yaml.git.json").unlink()
    with pytest.raises(Refused, match="what git said"):
        judged_again(run, now_ns=NOW_NS)
