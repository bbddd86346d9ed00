"""Passports: made of sealed interviews alone, and taken by CI only whole, in time and for their own job."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster import passports, signing, strict
from drillmaster.clock import parse_rfc3339
from drillmaster.deciding import BudgetNote, JobKind
from drillmaster.errors import Problem, Refused
from drillmaster.passports import Judged, Passport
from drillmaster.reports import form
from tests.interviewed import DECISION, JOB, POLICY, sealed

GOLDEN = Path(__file__).parent / "golden" / "interview"
NOW = "2026-12-01T09:00:00Z"


def at(text: str = NOW) -> int:
    found = parse_rfc3339(text)
    assert found is not None
    return found


def judged(folder: Path, *, decision: str = DECISION, now: str = NOW, **over: Any) -> Judged:
    (folder / "policy.yaml").write_text(POLICY + decision, encoding="utf-8")
    run = sealed(folder, **over)
    note = BudgetNote(allowance="10 million tokens a month", read_on="2026-11-29", url="https://host/terms")
    return passports.judge_run(
        run, folder / "policy.yaml", now_ns=at(now), measured_from="CI runner, Frankfurt", budget=note
    )


def issued(folder: Path, kind: JobKind | None = "summary", **over: Any) -> Passport:
    return passports.issue(judged(folder, **over), job=JOB, kind=kind)


def written(folder: Path, kind: JobKind | None = "summary", **over: Any) -> Path:
    path, _ = passports.write(issued(folder, kind, **over), folder / "passports")
    return path


def checked(folder: Path, now: str = NOW, job: str = JOB, **more: Any) -> passports.Standing:
    return passports.check(job, folder / "passports", now_ns=at(now), **more)


def edited(path: Path, *, redigest: bool = True, **fields: Any) -> None:
    content = json.loads(path.read_text()) | fields
    if redigest:
        content["digest"] = strict.digest({name: value for name, value in content.items() if name != "digest"})
    path.write_text(json.dumps(content))


# What a sealed interview earns


def test_a_job_of_an_allowed_kind_may_run_until_its_review_day_is_over(tmp_path: Path) -> None:
    assert written(tmp_path) == tmp_path / "passports" / "one-sentence-diff-summary.json"
    standing = checked(tmp_path)
    assert (standing.status, standing.days_left, standing.signed_by) == ("pass", 29, "")
    assert standing.passport.review_on == "2026-12-30"
    assert checked(tmp_path, "2026-12-30T23:59:59Z").days_left == 0
    with pytest.raises(
        Refused, match=r"at the end of 2026-12-30 \(UTC\); today is 2026-12-31, .*drillmaster interview http://127"
    ):
        checked(tmp_path, "2026-12-31T00:00:00Z")


def test_a_job_of_another_kind_stays_elsewhere(tmp_path: Path) -> None:
    written(tmp_path, "chat")
    standing = checked(tmp_path)
    assert standing.status == "fail"
    assert "it is of the kind chat, and the numbers allow interactive aids, summaries of one file (" in standing.why


@pytest.mark.parametrize(
    ("over", "kind", "status"),
    [
        ({"four_ms": 450}, "batch", "pass"),  # 4.5 times slower with four callers
        ({"four_ms": 450}, "summary", "fail"),
        ({"failed": 2}, "batch", "fail"),  # within the cap, and no row fits
        ({"failed": 3}, "summary", "fail"),  # over the cap: the gate says no
        ({"cold_ms": 2_500}, "summary", "fail"),  # over the cold limit
    ],
)
def test_what_the_rows_say_is_what_a_passport_says(
    tmp_path: Path, over: dict[str, Any], kind: JobKind, status: str
) -> None:
    written(tmp_path, kind, **over)
    assert checked(tmp_path).status == status


def test_without_a_decision_part_a_pass_is_for_the_job_alone(tmp_path: Path) -> None:
    written(tmp_path, None, decision="")
    assert (checked(tmp_path).status, checked(tmp_path).why) == (
        "pass",
        "its interview passed, and the thresholds have no table of other jobs",
    )


def test_a_failed_verdict_makes_a_passport_that_says_no(tmp_path: Path) -> None:
    path = written(tmp_path, None, decision="", failed=3)
    assert json.loads(path.read_text())["status"] == "fail"
    assert checked(tmp_path).status == "fail"
    assert checked(tmp_path).why == "the gate's verdict is fail"


# What makes none


def test_a_refused_verdict_makes_none(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("warm_c4", "warm_c8"), encoding="utf-8")
    found = passports.judge_run(sealed(tmp_path), tmp_path / "policy.yaml", now_ns=at())
    with pytest.raises(Refused, match="no threshold for warm_c4"):
        passports.issue(found, job=JOB, kind=None)


def test_a_bare_file_makes_none(tmp_path: Path) -> None:
    found = passports.judge_file(GOLDEN / "pass.json", GOLDEN / "gate.json", job=JOB, now_ns=at())
    assert found.verdict.status == "pass"
    with pytest.raises(Refused, match="UNSEALED"):
        passports.issue(found, job=JOB, kind=None, trial=True)


def test_one_changed_byte_of_the_run_makes_none(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    run = sealed(tmp_path)
    data = bytearray((run / "samples.bin").read_bytes())
    data[-20] ^= 1
    (run / "samples.bin").write_bytes(data)
    with pytest.raises(Refused, match=r"samples\.bin"):
        passports.judge_run(run, tmp_path / "policy.yaml", now_ns=at())


@pytest.mark.parametrize("stamp", ["REHEARSAL", "COMPRESSED 30x"])
def test_a_rehearsal_makes_one_that_only_a_rehearsal_takes(tmp_path: Path, stamp: str) -> None:
    found = judged(tmp_path, stamps=(stamp,))
    with pytest.raises(Refused, match=stamp):
        passports.issue(found, job=JOB, kind="summary")
    passports.write(passports.issue(found, job=JOB, kind="summary", trial=True), tmp_path / "passports")
    with pytest.raises(Refused, match=stamp):
        checked(tmp_path)
    assert checked(tmp_path, trial=True).status == "pass"


def test_thresholds_that_nobody_owns_make_none(tmp_path: Path) -> None:
    gate = {"warm_c1": {"p95_s": 1, "error_rate": 0.0}, "warm_c4": {"p95_s": 3, "error_rate": 0.1}, "cold_max_s": 2}
    (tmp_path / "gate.json").write_text(json.dumps(gate))
    found = passports.judge_run(sealed(tmp_path), tmp_path / "gate.json", now_ns=at())
    with pytest.raises(Refused, match=r"UNPINNED.*gate\.json\.pin\.yaml"):
        passports.issue(found, job=JOB, kind=None)


def test_the_numbers_of_one_job_are_no_passport_for_another(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no number travels"):
        passports.issue(judged(tmp_path), job="nightly lint", kind="nightly")


def test_a_kind_is_named_exactly_where_the_table_asks_for_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="add --kind and one of interactive, "):
        passports.issue(judged(tmp_path), job=JOB, kind=None)
    shutil.rmtree(tmp_path / "20261130T120000Z-0001")
    with pytest.raises(Refused, match="drop --kind"):
        passports.issue(judged(tmp_path, decision=""), job=JOB, kind="batch")


# What CI does not take


def test_none_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no passport.*drillmaster passport write RUN --job 'one-sentence diff summary'"):
        checked(tmp_path)
    written(tmp_path)
    with pytest.raises(Refused, match=r"did you mean the job of one-sentence-diff-summary\.json\? Else write one"):
        checked(tmp_path, job="one-sentence diff sumary")


@pytest.mark.parametrize(
    "fields",
    [
        {"review_on": "2027-12-30"},
        {"allowed": ["chat"], "job_kind": "chat"},
        {"status": "pass"},
        {"url": "http://elsewhere/"},
        {"measured_at": "2026-11-30T12:20:01Z"},
    ],
)
def test_an_edited_one_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    edited(written(tmp_path, four_ms=600, failed=3), redigest=False, **fields)
    with pytest.raises(Refused, match=r"changed after it was written.*--policy policy\.yaml --kind (summary|chat)"):
        checked(tmp_path)


@pytest.mark.parametrize(
    "fields", [{"review_on": "2027-12-30"}, {"status": "pass"}, {"allowed": ["summary"]}, {"job_alone": True}]
)
def test_one_that_says_other_than_its_own_verdict_is_refused_though_its_digest_fits(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    edited(written(tmp_path, failed=3), **fields)
    with pytest.raises(Refused, match="a passport says no more than the verdict in it"):
        checked(tmp_path)


def test_the_verdict_of_another_drill_is_none_of_an_interview(tmp_path: Path) -> None:
    path = written(tmp_path, failed=0)
    verdict = json.loads(path.read_text())["verdict"]
    edited(path, verdict={**verdict, "gate": "eviction"})
    with pytest.raises(Refused, match="wanted the verdict of gate interview"):
        checked(tmp_path)


def test_one_whose_checks_do_not_add_up_to_its_verdict_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, failed=3)
    verdict = json.loads(path.read_text())["verdict"] | {"status": "pass", "exit": 0}
    edited(path, verdict=verdict, status="pass")
    with pytest.raises(Problem, match="status pass"):
        checked(tmp_path)


def test_an_unsealed_one_that_somebody_put_together_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    edited(path, verdict=json.loads(path.read_text())["verdict"] | {"stamps": ["UNSEALED"]})
    with pytest.raises(Refused, match="UNSEALED"):
        checked(tmp_path, trial=True)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"kind": "passport"', '{"kind": "verdict"}'])
def test_what_is_no_passport_is_refused(tmp_path: Path, text: str) -> None:
    written(tmp_path).write_text(text)
    with pytest.raises(Problem):
        checked(tmp_path)


def test_one_from_the_future_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(Refused, match="a measurement of the past"):
        checked(tmp_path, "2026-11-30T12:00:00Z")


def test_one_that_was_moved_to_another_jobs_name_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.rename(path.with_name("nightly-lint.json"))
    with pytest.raises(Refused, match="a passport for another job"):
        checked(tmp_path, job="nightly lint")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"review_on": "2027-12-30"}, "found status fail until 2027-12-30, wanted status fail until 2026-12-30: "),
        ({"status": "pass"}, "found status pass until 2026-12-30, wanted status fail until 2026-12-30: "),
        ({"allowed": ["summary"]}, "found jobs that are allowed by a verdict of fail, wanted none: "),
        ({"job_alone": True}, "found jobs that are allowed by a verdict of fail, wanted none: "),
        ({"measured_at": "yesterday"}, "wanted status fail until some day: "),
    ],
)
def test_what_it_says_beyond_its_verdict_is_named(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    edited(written(tmp_path, failed=3), **fields)
    with pytest.raises(Refused) as raised:
        checked(tmp_path)
    assert said in str(raised.value)


def test_one_for_another_job_says_whose_it_is_and_how_to_ask_for_that(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.rename(path.with_name("nightly-lint.json"))
    with pytest.raises(Refused) as raised:
        checked(tmp_path, job="nightly lint")
    assert raised.value.found == f"a passport for another job, {JOB!r}"
    assert raised.value.remedy.startswith(f"drillmaster passport check '{JOB}', if that job is meant; else write one: ")


def test_thresholds_without_an_owner_are_told_to_get_one(tmp_path: Path) -> None:
    path = written(tmp_path)
    edited(path, verdict=json.loads(path.read_text())["verdict"] | {"stamps": ["UNPINNED"]})
    with pytest.raises(Refused) as raised:
        checked(tmp_path)
    assert raised.value.remedy.startswith("write policy.yaml.pin.yaml (source, owner, review_by, sha256)")
    assert "(to try it out: passport check --rehearsal)" in raised.value.remedy


@pytest.mark.parametrize(
    ("now", "left"), [(NOW, 29), ("2026-12-29T23:59:59Z", 1), ("2026-12-30T00:00:00Z", 0), ("2026-12-30T23:59:59Z", 0)]
)
def test_the_last_day_counts_to_its_end(tmp_path: Path, now: str, left: int) -> None:
    written(tmp_path)
    assert checked(tmp_path, now).days_left == left


def test_names_that_look_alike_do_not_share_a_file(tmp_path: Path) -> None:
    names = ["diff summary", "diff süммary", "日報", "週報", "x" * 61, "x" * 62, "../../etc/passwd"]
    files = [passports.file_of(name, tmp_path) for name in names]
    assert len(set(files)) == len(names)
    assert {path.parent for path in files} == {tmp_path}
    for name in ("", "  ", "a\nb"):
        with pytest.raises(Problem):
            passports.file_of(name)


# Renewing


def test_a_later_interview_takes_the_place_of_an_earlier_one_and_never_the_other_way(tmp_path: Path) -> None:
    made = issued(tmp_path)
    passports.write(made, tmp_path / "passports")
    passports.write(made, tmp_path / "passports")
    earlier = msgspec.structs.replace(made, measured_at="2026-11-29T12:00:00Z")
    with pytest.raises(Refused, match="a later run"):
        passports.write(earlier, tmp_path / "passports")


def test_a_file_of_another_job_is_not_written_over(tmp_path: Path) -> None:
    made = issued(tmp_path)
    passports.write(made, tmp_path / "passports")
    with pytest.raises(Refused, match="another job"):
        passports.write(msgspec.structs.replace(made, job=JOB.upper()), tmp_path / "passports")


# The page


@pytest.mark.parametrize(
    ("name", "over"), [("page-pass", {}), ("page-batch", {"four_ms": 450}), ("page-fail", {"failed": 3})]
)
def test_the_page_is_the_one_that_was_kept(tmp_path: Path, name: str, over: dict[str, Any]) -> None:
    found = judged(tmp_path, **over)
    text = form("interview").render(found.verdict, found.page, found.decision)
    digest = found.verdict.evidence_digest  # of a seal that holds the version of what sealed it
    assert text.replace(digest, "sha256:seal") == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")


def test_the_page_of_a_bare_file_says_what_nobody_recorded() -> None:
    found = passports.judge_file(GOLDEN / "pass.json", GOLDEN / "gate.json", job="", now_ns=at())
    text: str = form("interview").render(found.verdict, found.page, found.decision)
    assert text == (GOLDEN / "page-bare.md").read_text(encoding="utf-8")


def test_what_evidence_says_cannot_mark_up_the_page(tmp_path: Path) -> None:
    wild = "```\n# x <img src=x> [a](http://b) @all"
    found = judged(tmp_path, job=wild, payload=wild, seats={"driver": wild, "reader": "", "recorder": ""})
    text: str = form("interview").render(found.verdict, found.page, found.decision)
    assert "\n# x" not in text
    assert "Reader: OPEN" in text
    assert "\\<img" in text


# Who signs


@pytest.mark.needs("ssh-keygen")
def test_whoever_wrote_the_plan_does_not_sign_for_the_reader(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, capture_output=True)
    path = written(tmp_path, authors=("Ada <ada@example.invalid>",))
    signing.sign(path, key)
    signers = tmp_path / "allowed_signers"
    public = key.with_suffix(".pub").read_text()
    signers.write_text(f"ada@example.invalid {public}bea@example.invalid {public}")
    assert "bea@example.invalid" in checked(tmp_path, signer=signers, identity="bea@example.invalid").signed_by
    with pytest.raises(Refused, match="who wrote the plan"):
        checked(tmp_path, signer=signers, identity="ada@example.invalid")


def test_a_reader_who_wrote_the_plan_makes_no_passport(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        issued(tmp_path, authors=("Bea <bea@example.invalid>",))
