import re
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import reports
from drillmaster.errors import Problem
from drillmaster.outcomes import join_bare
from drillmaster.reports._view import view
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure
from tests.reports import cases


def test_an_unknown_form_is_refused_with_the_near_miss() -> None:
    with pytest.raises(Problem) as raised:
        reports.form("txt")
    assert "did you mean text?" in str(raised.value)


def test_a_form_name_that_is_an_attack_is_refused_in_one_short_line() -> None:
    with pytest.raises(Problem) as raised:
        reports.form("../../etc/passwd\x1b[2J\n" * 50)
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_forms_are_listed_by_file_name() -> None:
    assert reports.forms() == [
        "card", "csv", "friday_card", "friday_html", "github", "hdr", "html", "interview", "interview_html", "interview_json",
        "issues", "json", "junit", "markdown", "prometheus", "sarif", "text",
    ]  # fmt: skip


def test_only_the_form_asked_for_is_imported() -> None:
    code = "import sys; from drillmaster import reports; reports.form('text'); print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "drillmaster.reports.text" in loaded
    assert not {"drillmaster.reports.html", "drillmaster.reports.card", "jinja2", "asyncio"} & set(loaded)


def test_a_bare_file_has_no_view_and_says_what_to_print_instead() -> None:
    case = cases.passing()
    with pytest.raises(Problem) as raised:
        view(join_bare("drill.jsonl", []), cases.judged(case), gate_command="")
    assert "--format text" in raised.value.remedy


@pytest.mark.parametrize(
    ("given_text", "wanted"),
    [
        ("plain", "plain"),
        ("two\nlines\r", "two\\x0alines\\x0d"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eevil", "\\u202eevil"),  # turns the direction of what follows
        ("a\u2028b", "a\\u2028b"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\ud800", "\\ud800"),  # a lone surrogate could not be written at all
        ("Zoë 日本", "Zoë 日本"),
    ],
)
def test_text_for_one_line_has_no_controls(given_text: str, wanted: str) -> None:
    assert reports.one_line(given_text) == wanted


@pytest.mark.parametrize(
    ("given_text", "wanted"),
    [
        ("a|b", "a\\|b"),
        ("`code`", "\\`code\\`"),
        ("<img src=x>", "\\<img src=x>"),
        ("![x](http://a/b)", "!\\[x\\](http://a/b)"),
        ("*bold* _em_ snake_case", "\\*bold\\* \\_em\\_ snake_case"),
        ("&lt;b&gt; R&D", "\\&lt;b\\&gt; R&D"),
        ("back\\slash", "back\\\\slash"),
        ("@oncall and a@b.c", "@\u200boncall and a@b.c"),
        ("$x^2$ ~~gone~~", "\\$x^2\\$ \\~\\~gone\\~\\~"),
    ],
)
def test_markdown_in_names_stays_text(given_text: str, wanted: str) -> None:
    assert reports.markdown_line(given_text) == wanted


@given(st.text())
def test_nothing_inside_a_code_span_can_end_it(text: str) -> None:
    span = reports.code_span(text)
    opening = re.match("`+", span)
    assert opening is not None
    fence = opening[0]
    inside = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    assert fence not in {run[0] for run in re.finditer("`+", inside)}
    assert "\n" not in span


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0, "0"),
        (-0.0, "0"),
        (60, "60"),
        (0.807123, "0.807"),
        (1.0449, "1.04"),
        (12.345, "12.3"),
        (1234.5, "1234"),
        (0.0001234, "0.000123"),
        (-2.5, "-2.5"),
        (1e15, "1000000000000000"),
        (float("inf"), "not a finite number"),
        (float("nan"), "not a finite number"),
    ],
)
def test_numbers_read_as_people_write_them(value: float, wanted: str) -> None:
    assert reports.number(value) == wanted


@pytest.mark.parametrize(
    ("observed", "unit", "wanted"),
    [
        (None, "s", ""),
        (Absent("no requests\x1b"), "s", "nothing: no requests\\x1b"),
        (Exact(5.281, n=1), "s", "5.28 s"),
        (Exact(1 / 180, n=180), "ratio", "0.556 % of 180"),
        (Exact(0.07, n=100), "ratio", "7 % of 100"),  # 0.07 * 100 is a hair over 7
        (Exact(0, n=1282), "", "0 of 1282"),
        (Exact(0.644, n=120, low=0.609, high=0.701), "s", "0.644 s (0.609 s to 0.701 s) (n = 120)"),
        (AtLeast(900), "s", "at least 900 s"),
        (AtMost(3.2), "s", "at most 3.2 s"),
        (Exact(1, n=1), "ratio", "100 % of 1"),
    ],
)
def test_measures_read_as_people_say_them(observed: Measure | None, unit: str, wanted: str) -> None:
    assert reports.measure(observed, unit) == wanted


def test_a_view_holds_no_secret_of_the_plan() -> None:
    _, view = cases.both(cases.passing())
    written = msgspec.json.encode(view).decode()
    assert view.upstream == "https://api.example.com/v1"
    for secret in ("secret", "never-shown", "key=abc", "authorization"):
        assert secret not in written


def test_a_view_counts_every_request_in_its_phase() -> None:
    _, view = cases.both(cases.passing())
    assert [(phase.name, sum(phase.counts.values())) for phase in view.phases] == [
        ("baseline", 120),
        ("fault", 180),
        ("recovery", 60),
    ]
    assert view.phases[1].counts == {"ok_fallback": 179, "http_5xx": 1}


def test_requests_that_were_given_up_on_stay_in_the_latencies_as_at_least() -> None:
    _, view = cases.both(cases.failing())
    assert isinstance(view.phases[1].p50, AtLeast)
    assert view.phases[1].p50.value == pytest.approx(10.0)


def test_the_first_fallback_is_the_end_of_its_answer() -> None:
    _, view = cases.both(cases.passing())
    (window,) = view.windows
    assert window.first_fallback_s is not None
    # The first request of the fault got a 503; the second was due 5 s into it and took its fallback a moment.
    assert 605.2 < window.first_fallback_s < 605.5
