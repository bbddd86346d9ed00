"""The forms of an interview: what is on them, that they say what was measured, and that nothing in the evidence can fool them."""

import csv
import io
import itertools
import json
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from drillmaster import reports, strict
from drillmaster.reports._levels import Dot, LevelView, bin_edge, bin_of, thin, thin_places
from drillmaster.reports.csv import COLUMNS
from drillmaster.reports.html import MAX_BYTES
from drillmaster.reports.interview import InterviewView
from drillmaster.reports.interview_html import UNPROVEN
from drillmaster.verdict import Absent, AtLeast, Exact, Verdict, conclude
from tests.reports import cases, interviews
from tests.reports.test_html import Page

CASES = tuple(interviews.CASES)


def _html(name: str) -> str:
    text: str = reports.form("interview_html").render(*interviews.frozen(name))
    return text


@pytest.mark.parametrize("name", CASES)
def test_golden_forms(name: str) -> None:
    for file, text in interviews.outputs(*interviews.frozen(name)).items():
        assert text.encode() == (interviews.GOLDEN / name / file).read_bytes(), file


@pytest.mark.parametrize("name", interviews.PAGES)
def test_golden_pages(name: str) -> None:
    assert _html(name).encode() == (interviews.GOLDEN / name / "report.html").read_bytes()


# Of many calls


def test_of_few_calls_all_are_drawn() -> None:
    assert thin_places([1.0, 2.0], [0.1, 0.2], [0, 0], parts=10, most=2) == [0, 1]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 9), st.integers(0, 3)), min_size=1, max_size=300))
def test_the_slowest_of_each_kind_in_each_part_of_the_time_is_always_there(
    calls: list[tuple[float, float, int]],
) -> None:
    at_s, took_s, kinds = ([call[i] for call in calls] for i in range(3))
    kept = thin_places(at_s, took_s, kinds, parts=8, most=40)
    assert len(kept) <= max(40, 8 * 4) + 8 * 4
    if len(calls) <= 40:
        assert kept == list(range(len(calls)))
    width = (max(at_s) - min(at_s)) / 8 or 1.0
    for part, kind in itertools.product(range(8), range(4)):
        inside = [
            p for p in range(len(calls)) if kinds[p] == kind and min(7, int((at_s[p] - min(at_s)) / width)) == part
        ]
        if inside:
            slowest = max(took_s[p] for p in inside)
            assert any(took_s[p] == slowest for p in inside if p in kept)


def test_a_thinned_level_is_thinned_again_and_keeps_its_maximum() -> None:
    dots = [Dot(n / 10, 0.1 + (n == 617) * 9, "ok") for n in range(1000)]
    again = thin(thin(dots, parts=60, most=300), parts=6, most=12)
    assert len(again) <= 20 and dots[617] in again


@given(st.floats(1e-6, 1e5))
def test_a_bin_holds_its_value(seconds: float) -> None:
    number = bin_of(seconds)
    assert bin_edge(number) <= seconds * (1 + 1e-6) and seconds < bin_edge(number + 1) * (1 + 1e-6)


# The page


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_loaded_and_no_script_runs(name: str) -> None:
    page = Page(_html(name))
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "embed", "form", "a", "image", "use"}
    for _, attrs in page.tags:
        assert not {"src", "href", "srcset", "action", "xlink:href"} & set(attrs)
        assert not any(key.startswith("on") for key in attrs)
    assert list(page.of("script")) == [{"type": "application/json", "id": "interview"}]
    policies = [attrs["content"] for attrs in page.of("meta") if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.mark.parametrize("name", CASES)
def test_tags_are_closed_and_who_cannot_see_it_can_read_it(name: str) -> None:
    page = Page(_html(name))
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    tags = [tag for tag, _ in page.tags]
    assert all(tags.count(landmark) == 1 for landmark in ("header", "main", "footer", "h1"))
    assert tags.count("caption") == tags.count("table") >= 5
    for attrs in page.of("svg"):
        wanted = (attrs.get("aria-labelledby") or "").split()
        assert (attrs.get("role") == "img" and wanted and set(wanted) <= set(ids)) or attrs.get("aria-hidden") == "true"
    for attrs in page.of("section"):
        assert attrs.get("aria-labelledby") or attrs.get("aria-label")
    for attrs in page.of("th"):
        assert attrs.get("scope") in ("col", "row", "rowgroup")


def test_names_from_the_evidence_are_text_and_nothing_else() -> None:
    honest, hostile = Page(_html("pass")), Page(_html("hostile"))
    assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in honest.tags}
    assert "<script>alert(1)</script>" in hostile.text
    assert "\x1b" not in hostile.text and "\u202e" not in hostile.text


@pytest.mark.parametrize("name", CASES)
def test_the_page_holds_what_it_is_about(name: str) -> None:
    verdict, view = interviews.frozen(name)
    text = " ".join(Page(_html(name)).text.split())
    for stamp in verdict.stamps:
        assert stamp in text
    for level in view.levels:
        assert level.label in text
    for line in UNPROVEN:
        assert " ".join(line.split()) in text
    wanted = [
        view.page.url,
        view.page.payload_sha256,
        "0f1e2d3c",
        verdict.evidence_digest,
        verdict.policy_digest,
        "Bea",
    ]
    for fact in wanted:
        assert fact in text
    for check in verdict.checks:
        assert " ".join(reports.one_line(check.title).split()) in text


def test_a_void_level_is_marked_in_words_wherever_it_stands() -> None:
    text = Page(_html("refused")).text
    assert "1 of 5 levels are void" in text
    assert "VOID calls were sent up to 300 ms late" in " ".join(text.split())
    assert _html("refused").count(">VOID<") >= 3  # ladder, its picture, the client's table
    assert ">warm_c4 VOID<" in _html("refused")  # the picture over time


def test_the_row_that_decided_is_named_and_none_where_the_verdict_did() -> None:
    page = _html("pass")
    assert page.count('<tr class="decided">') == 1
    assert "Decided by: p95 under the interactive budget, and no errors." in page
    assert '<tr class="decided">' not in _html("fail")
    assert "No row decided, but the verdict: fail." in _html("fail")


def test_failures_are_told_by_kind_and_none_is_said_with_what_it_shows() -> None:
    kinds = re.findall(r'<th scope="col" class="num">(dropped|http_429|timeout)</th>', _html("fail"))
    assert kinds == ["dropped", "http_429", "timeout"]
    assert "No call failed. Of the level with the fewest calls that shows no more than 4.87 % of failures" in _html(
        "pass"
    )


def test_a_run_that_did_not_come_to_its_end_says_so_on_top() -> None:
    assert "It ended before its end: stopped by SIGINT." in _html("partial")
    assert "This run is partial" not in _html("pass")


def test_without_streams_there_is_no_first_word() -> None:
    assert "First word p50" not in _html("fail") and "No stream was asked for" in _html("fail")
    assert "First word p50" in _html("pass")


def _large(levels: int, dots: int, text: str) -> tuple[Verdict, InterviewView]:
    verdict, view = interviews.frozen("fail")
    one = view.levels[1]
    many = tuple(
        msgspec.structs.replace(
            one,
            label=f"warm_c{n + 1}",
            void=(text * 4,),
            failed={f"http_{400 + k}": 1 for k in range(12)},
            dots=tuple(Dot(i / 7, 0.1 + (i % 97) / 10, "failed" if i % 5 else "ok") for i in range(dots)),
        )
        for n in range(levels)
    )
    return verdict, msgspec.structs.replace(view, levels=(view.levels[0], *many))


@pytest.mark.parametrize(("levels", "dots"), [(8, 360), (40, 360), (200, 60)])
def test_the_page_is_under_its_size_whatever_was_run(levels: int, dots: int) -> None:
    page = reports.form("interview_html").render(*_large(levels, dots, "the client was busy & <late> "))
    assert len(page.encode()) <= MAX_BYTES
    if levels > 24:
        assert "levels more are" in page


# JSON


@pytest.mark.parametrize("name", CASES)
def test_json_is_strict_and_the_page_holds_it(name: str) -> None:
    verdict, view = interviews.frozen(name)
    text = reports.form("interview_json").render(verdict, view)
    said = strict.load(text.encode(), place="report.json", fmt="json")
    assert (said["kind"], said["schema_version"], said["verdict"]["exit"]) == ("interview_report", 1, int(verdict.exit))
    assert [level["label"] for level in said["levels"]] == [level.label for level in view.levels]
    for level, real in zip(said["levels"], view.levels, strict=True):
        counted = sum(n for _, n in level["latency"]["bins"]) + sum(n for _, n in level["latency"]["cut_bins"])
        assert counted == level["latency"]["n"] <= real.n
    inside = json.loads(Page(_html(name)).scripts[0])
    for level in said["levels"]:
        for spread in ("latency", "first_byte", "first_word", "gaps"):
            if level[spread]:
                del level[spread]["bins"], level[spread]["cut_bins"]
    assert inside == said


# CSV


@pytest.mark.parametrize("name", CASES)
def test_csv_has_a_row_a_level_and_no_formula(name: str) -> None:
    verdict, view = interviews.frozen(name)
    text = reports.form("csv").render(verdict, view)
    assert text.endswith("\r\n") and "\n" not in text.replace("\r\n", "")
    head, *rows = csv.reader(io.StringIO(text))
    assert tuple(head) == COLUMNS and len(set(head)) == len(head)
    assert [row[head.index("level")] for row in rows] == [level.label for level in view.levels]
    for row in rows:
        assert len(row) == len(head)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
    if name == "hostile":
        assert rows[0][head.index("measured_from")].startswith("'=HYPERLINK")
    if name == "fail":
        opened = dict(zip(head, rows[3], strict=True))
        assert (opened["p95_cut"], opened["p95_high_s"], opened["first_word_p50_s"]) == ("true", "", "")
        assert opened["failed_kinds"] == "dropped 2; http_429 4; timeout 3"


# JUnit


@pytest.mark.parametrize(
    "verdict",
    [*(interviews.frozen(name)[0] for name in CASES), *(cases.frozen(name)[0] for name in cases.CASES)],
    ids=[*CASES, *cases.CASES.keys()],
)
def test_junit_is_green_for_a_pass_and_for_nothing_else(verdict: Verdict) -> None:
    text = reports.form("junit").render(verdict)
    read = JUnitXml.fromstring(text.encode())  # no schema was ever published: this is what a reader makes of it
    told = (read.tests, read.failures, read.errors)
    read.update_statistics()
    assert told == (read.tests, read.failures, read.errors)
    root = ET.fromstring(text)
    [suite] = root
    found = suite.findall("testcase")
    failures, errors = suite.findall("testcase/failure"), suite.findall("testcase/error")
    assert int(suite.attrib["tests"]) == len(found) == len(verdict.checks)
    assert (int(suite.attrib["failures"]), int(suite.attrib["errors"])) == (len(failures), len(errors))
    assert (not failures and not errors) == (verdict.status == "pass")
    assert [case.attrib["name"] for case in found] == [reports.one_line(check.id) for check in verdict.checks]
    for stamp in verdict.stamps:
        assert reports.one_line(stamp) in suite.attrib["name"]


def test_junit_of_nothing_looked_at_is_red() -> None:
    nothing = Verdict(gate="interview", status=conclude(()), checks=())
    root = ET.fromstring(reports.form("junit").render(nothing))
    assert root[0].attrib["errors"] == "1" and root.find("testsuite/testcase/error") is not None


# Prometheus


def _families(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type == "gauge", family.name
        assert family.name not in found, f"{family.name} comes twice"
        samples = found.setdefault(family.name, {})
        for sample in family.samples:
            assert sample.timestamp is None
            key = tuple(sorted(sample.labels.items()))
            assert key not in samples, f"{sample.name} {key} comes twice"
            samples[key] = sample.value
    return found


def _of(family: dict[tuple[tuple[str, str], ...], float], **labels: str) -> list[float]:
    return [value for key, value in family.items() if labels.items() <= dict(key).items()]


@pytest.mark.parametrize("name", CASES)
def test_prometheus_reads_it_and_names_hold(name: str) -> None:
    verdict, view = interviews.frozen(name)
    found = _families(reports.form("prometheus").render(verdict, view))
    for metric in found:
        assert re.fullmatch(r"drillmaster_[a-z0-9_]+", metric)
        assert not metric.endswith(("_total", "_count", "_sum", "_bucket"))  # which are of other types
        assert "_ms" not in metric
    [info] = found["drillmaster_interview_info"]
    assert dict(info)["interview"] == reports.one_line(view.page.job)
    assert _of(found["drillmaster_verdict"], status=verdict.status) == [1.0]
    assert sum(found["drillmaster_verdict"].values()) == 1.0


def test_an_alert_on_a_bound_fires_where_nobody_knows() -> None:
    void = _families(reports.form("prometheus").render(*interviews.frozen("refused")))
    assert _of(void["drillmaster_interview_level_void"], level="warm_c4") == [1.0]
    assert _of(void["drillmaster_interview_latency_seconds"], level="warm_c4") == []
    assert set(_of(void["drillmaster_interview_latency_upper_bound_seconds"], level="warm_c4")) == {math.inf}
    assert _of(void["drillmaster_interview_error_ratio_upper_bound"], level="warm_c4") == [math.inf]
    cut = _families(reports.form("prometheus").render(*interviews.frozen("fail")))
    assert _of(cut["drillmaster_interview_latency_seconds"], level="open_r5", at="p95") == [10.0]
    assert _of(cut["drillmaster_interview_latency_upper_bound_seconds"], level="open_r5", at="p95") == [math.inf]
    assert _of(cut["drillmaster_interview_calls"], level="open_r5", end="http_429") == [4.0]


def test_a_drill_has_its_verdict_there_too() -> None:
    verdict, view = cases.frozen("fail")
    found = _families(reports.form("prometheus").render(verdict, service=view.service))
    assert _of(found["drillmaster_verdict"], service="support-agent", status="fail") == [1.0]
    assert set(found) == {"drillmaster_verdict", "drillmaster_check_passed", "drillmaster_judged_timestamp_seconds"}


# What goes in


def test_a_view_has_the_figures_that_were_put_in(tmp_path: Path) -> None:
    _, view = interviews.case("fail", tmp_path)
    levels = {level.label: level for level in view.levels}
    assert list(levels) == ["cold", "warm_c1", "warm_c4", "open_r5", "drain"]
    opened = levels["open_r5"]
    assert opened.failed == {"http_429": 4, "timeout": 3, "dropped": 2}
    kinds = [dot.kind for dot in opened.dots]
    assert (kinds.count("failed"), kinds.count("cut"), kinds.count("dropped")) == (4, 3, 2)
    assert opened.latency.n == 60 - 4  # what was cut, and what was never sent, took at least so long
    assert isinstance(opened.latency.quantiles["max"], AtLeast)
    assert (opened.first_word, opened.gaps, opened.tokens) == (None, None, None)
    assert levels["cold"].connects == 1 and levels["cold"].connect_max_s == pytest.approx(0.022)
    assert view.warmup_calls == 5
    assert view.decision.measured_from == "CI runner, Frankfurt"


def test_streams_have_first_words_and_gaps_of_good_calls(tmp_path: Path) -> None:
    _, view = interviews.case("pass", tmp_path)
    one: LevelView = view.levels[1]
    assert one.first_word is not None and one.gaps is not None
    assert (one.first_word.n, one.gaps.n, one.tokens) == (60, 60 * 11, 60 * 12)
    p50, whole = one.gaps.quantiles["p50"], one.latency.quantiles["p50"]
    assert isinstance(p50, Exact) and isinstance(whole, Exact)
    assert p50.value * 11 == pytest.approx(whole.value * 0.7, rel=0.01)
    assert p50.low is None and p50.high is None
    assert not any(isinstance(m, Absent) for m in one.gaps.quantiles.values())


def test_the_knee_of_a_ladder_is_on_every_form_that_has_figures(tmp_path: Path) -> None:
    verdict, view = interviews.shown(interviews.folder(tmp_path, levels=(1, 2, 4, 8), calls=400))
    assert view.knee_callers is not None and "knee" in view.knee
    view = msgspec.structs.replace(view, knee="the knee is at 4 callers", knee_callers=(4, 2, None))
    assert "The knee is at 4 callers." in Page(reports.form("interview_html").render(verdict, view)).text
    said = json.loads(reports.form("interview_json").render(verdict, view))
    assert said["knee"] == {"told": True, "callers": 4, "low": 2, "high": None, "text": "the knee is at 4 callers"}
    found = _families(reports.form("prometheus").render(verdict, view))["drillmaster_interview_knee_callers"]
    assert [_of(found, bound=bound) for bound in ("observed", "lower", "upper")] == [[4.0], [2.0], [math.inf]]


def test_a_knee_that_cannot_be_told_is_said_so_and_is_no_number(tmp_path: Path) -> None:
    verdict, view = interviews.shown(interviews.folder(tmp_path))
    assert view.knee.startswith("no knee can be told: 2 levels")
    assert "drillmaster_interview_knee_callers" not in reports.form("prometheus").render(verdict, view)


def test_calls_made_again_on_a_kept_connection_are_on_every_form(tmp_path: Path) -> None:
    path = interviews.folder(tmp_path, again=3)
    interviews.judge(path)
    verdict, view = interviews.shown(path)
    assert [level.made_again for level in view.levels] == [0, 3, 0, 0, 0]
    assert "calls made again on a kept connection 3" in reports.form("text").render(verdict, colour=False)
    said = json.loads(reports.form("interview_json").render(verdict, view))
    assert [level["made_again"] for level in said["levels"]] == [0, 3, 0, 0, 0]
    assert said["verdict"]["counts"]["calls made again on a kept connection"] == 3
    page = Page(reports.form("interview_html").render(verdict, view)).text
    assert "Made again on a kept connection that had been closed: 3 calls of warm_c1." in page
    rows = list(csv.DictReader(io.StringIO(reports.form("csv").render(verdict, view))))
    assert [row["made_again"] for row in rows] == ["0", "3", "0", "0", "0"]
    [family] = [
        metric
        for metric in text_string_to_metric_families(reports.form("prometheus").render(verdict, view))
        if metric.name == "drillmaster_interview_made_again"
    ]
    assert {sample.labels["level"]: sample.value for sample in family.samples}["warm_c1"] == 3
    wiki = reports.form("interview").render(verdict, view.page, view.decision)
    assert "calls, 3 of them made again on a kept connection that had been closed" in wiki


def test_where_no_call_was_made_again_no_page_speaks_of_it(tmp_path: Path) -> None:
    verdict, view = interviews.case("pass", tmp_path)
    assert "ade again on a kept" not in reports.form("interview_html").render(verdict, view)
    assert "made again" not in reports.form("text").render(verdict, colour=False)
    assert "made again" not in reports.form("interview").render(verdict, view.page, view.decision)


def test_one_call_made_again_is_one_call(tmp_path: Path) -> None:
    path = interviews.folder(tmp_path, again=1)
    interviews.judge(path)
    verdict, view = interviews.shown(path)
    page = Page(reports.form("interview_html").render(verdict, view)).text
    assert "Made again on a kept connection that had been closed: 1 call of warm_c1." in page
    wiki = reports.form("interview").render(verdict, view.page, view.decision)
    assert "calls, 1 of them made again on a kept connection" in wiki


def test_what_the_client_waited_for_a_core_is_on_every_form_that_says_how_it_fared(tmp_path: Path) -> None:
    verdict, view = interviews.case("pass", tmp_path)
    quiet = Page(reports.form("interview_html").render(verdict, view)).text
    assert "not told" in quiet and "% of the time" not in quiet
    levels = tuple(msgspec.structs.replace(level, delay_p99_s=0.0035, delay_share=0.123) for level in view.levels)
    view = msgspec.structs.replace(view, levels=levels)
    page = Page(reports.form("interview_html").render(verdict, view)).text
    assert "3.5 ms" in page and "12.3 % of the time" in page
    row = next(csv.DictReader(io.StringIO(reports.form("csv").render(verdict, view))))
    assert (row["delay_p99_s"], row["delay_ratio"]) == ("0.0035", "0.123")
    assert "drillmaster_interview_client_delay_ratio" in reports.form("prometheus").render(verdict, view)
    assert json.loads(reports.form("interview_json").render(verdict, view))["levels"][0]["delay_p99_s"] == 0.0035


def test_waits_and_sessions_are_on_every_form(tmp_path: Path) -> None:
    path = interviews.folder(tmp_path, waits=7)
    interviews.judge(path)
    verdict, view = interviews.shown(path)
    one, four = view.levels[1], view.levels[2]
    assert (one.waits, one.waited_s, one.sent_again, one.sessions, four.sessions) == (7, 3.5, 7, 20, 21)
    assert one.first_turns is not None and one.later_turns is not None
    assert (one.first_turns.n, one.later_turns.n) == (20, 40)
    assert "calls that waited for Retry-After 7, " in reports.form("text").render(verdict, colour=False)
    said = json.loads(reports.form("interview_json").render(verdict, view))
    assert [level["waits"] for level in said["levels"]] == [0, 7, 0, 0, 0]
    assert said["levels"][1]["waited_s"] == 3.5 and said["levels"][1]["first_turns"]["n"] == 20
    counts = said["verdict"]["counts"]
    assert [counts[name] for name in ("sessions", "good first turns", "good later turns", "ms that they waited")] == [
        41, 41, 79, 3500,
    ]  # fmt: skip
    page = Page(reports.form("interview_html").render(verdict, view)).text
    assert "Sessions, and waits that were asked for" in page and "3.5 s" in page and "n 40" in page
    rows = list(csv.DictReader(io.StringIO(reports.form("csv").render(verdict, view))))
    assert [(row["waits"], row["waited_s"], row["sessions"]) for row in rows][:3] == [
        ("0", "0", "0"), ("7", "3.5", "20"), ("0", "0", "21"),
    ]  # fmt: skip
    assert float(rows[1]["first_turns_p50_s"]) > 0 and rows[0]["later_turns_p50_s"] == ""
    families = {m.name: m for m in text_string_to_metric_families(reports.form("prometheus").render(verdict, view))}
    [waited] = [s for s in families["drillmaster_interview_waited_seconds"].samples if s.labels["level"] == "warm_c1"]
    assert waited.value == 3.5
    wiki = reports.form("interview").render(verdict, view.page, view.decision)
    assert "7 of them waited 3.5 s in all because Retry-After asked for it, turns of 41 sessions" in wiki


def test_where_nothing_waited_and_nobody_talked_no_page_speaks_of_it(tmp_path: Path) -> None:
    verdict, view = interviews.case("pass", tmp_path)
    assert "waits that were asked for" not in reports.form("interview_html").render(verdict, view)
    assert "Retry-After" not in reports.form("text").render(verdict, colour=False)
    assert "sessions" not in reports.form("interview").render(verdict, view.page, view.decision)


@pytest.mark.parametrize(
    ("decide", "block_s", "decided"),
    [("observed", 0.3, "observed"), ("bound", 0.1, "blocks"), ("bound", 5, "neither")],
)
def test_both_bounds_stand_on_each_form_and_which_decided(
    tmp_path: Path, decide: str, block_s: float, decided: str
) -> None:
    path = interviews.folder(tmp_path, calls=240)
    interviews.judge(
        path, interviews.POLICY.replace("decide: observed\n", f"decide: {decide}\n    block_s: {block_s}\n")
    )
    verdict, view = interviews.shown(path)
    level = next(level for level in view.levels if level.label == "warm_c1")
    bound = level.bounds["p95"]
    assert (view.block_s, bound.decided, view.levels[0].bounds) == (block_s, decided, {})
    assert isinstance(bound.by_calls, Exact)
    rows = list(csv.DictReader(io.StringIO(reports.form("csv").render(verdict, view))))
    assert rows[1]["p95_decided_by"] == decided and float(rows[1]["p95_bound_calls_s"]) == pytest.approx(
        bound.by_calls.value
    )
    assert (rows[1]["p95_bound_blocks_s"] == "") is (decided == "neither")
    said = json.loads(reports.form("interview_json").render(verdict, view))
    assert said["run"]["block_s"] == block_s and said["run"]["decides"] == decide
    assert said["levels"][1]["bounds"]["p95"]["decided"] == decided
    page = Page(reports.form("interview_html").render(verdict, view)).text
    assert " by calls" in page and f"by blocks of {block_s:g}" in page
    if decided == "neither":
        assert isinstance(bound.by_blocks, Absent)
        assert "none by blocks: 59 would do" in page
    else:
        assert isinstance(bound.by_blocks, Exact) and " by blocks" in page
    assert ("by blocks, decided" in page) is (decided == "blocks")
    assert ("what was observed decided" in page) is (decided == "observed")


def test_each_row_of_the_ladder_has_one_unit(tmp_path: Path) -> None:
    path = interviews.folder(tmp_path, slow=0.15)  # p50 under, and limits of a second and over it
    interviews.judge(path)
    verdict, view = interviews.shown(path)
    html = reports.form("interview_html").render(verdict, view)
    table = html[html.index("<caption>Latency and errors</caption>") :]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", table[: table.index("</table>")], re.S)
    assert len(rows) == len(view.levels)
    for row in rows:
        units = set(re.findall(r"[0-9.]+ (s|ms|µs)<", row))
        assert len(units) == 1, row


def test_tokens_that_no_answer_tells_are_counted_by_chunk_and_said_so(tmp_path: Path) -> None:
    verdict, view = interviews.case("pass", tmp_path)
    assert [level.chunks for level in view.levels] == [12, *([720] * 4)]
    told = reports.form("interview_html").render(verdict, view)
    assert "720 by chunk" not in told and ">720<" in told
    silent = msgspec.structs.replace(
        view, levels=tuple(msgspec.structs.replace(level, tokens=None) for level in view.levels)
    )
    html = reports.form("interview_html").render(verdict, silent)
    assert (
        "720 by chunk" in html and "not told" not in Page(html).text.partition("Throughput")[2].partition("Goodput")[0]
    )
    rows = list(csv.DictReader(io.StringIO(reports.form("csv").render(verdict, silent))))
    assert [(row["output_tokens"], row["chunks"]) for row in rows][:2] == [("", "12"), ("", "720")]
    whole = interviews.case("fail", tmp_path / "whole")[1]
    assert all(level.chunks is None for level in whole.levels)
