"""The table for people, what changed, and what was expected."""

from typing import Any

import msgspec
import pytest

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.sdkcheck import Client, Defaults, NotRun, Result, Table
from drillmaster.sdkcheck.page import render
from drillmaster.sdkcheck.table import (
    Expectation,
    Expectations,
    broken,
    changes,
    markdown,
    shown,
    span,
    summary,
    text,
    unseen,
)


def one(**fields: Any) -> Result:
    given: dict[str, Any] = {
        "client": "openai",
        "label": "stall",
        "stream": True,
        "outcome": "raised",
        "what": "openai.APITimeoutError",
        "caught": True,
        "fallback": True,
        "attempts": 1,
        "seconds": 1.5,
        "worst_s": 600.0,
        "log": "openai/stall-stream",
    }
    return Result(**{**given, **fields})


FOOLED = one(label="clean-end", outcome="fooled", what="the whole text, finish None", caught=None, fallback=False)
ENDLESS = one(label="ping-stall", outcome="waiting", what="", caught=None, fallback=False, seconds=9.0, worst_s=None)
MISSED = one(label="cut-stream", what="httpx2.ReadError", caught=False, fallback=False, worst_s=0.2)


def table(*results: Result, **fields: Any) -> Table:
    given: dict[str, Any] = {
        "made_at": "2026-11-29T17:00:00+00:00",
        "drillmaster": "0.1.0",
        "python": "3.11.7",
        "limit_s": 1.5,
        "watch_s": 9.0,
        "took_s": 40.0,
        "late_s": 0.1,
        "clients": (Client(name="openai", dist="openai", dialect="openai_chat", family="SDKs", version="3.57.0"),),
        "defaults": {"openai": Defaults(connect_s=5.0, read_s=600.0, retries=2)},
        "results": results,
        "not_run": (),
        "logs": "runs/x",
    }
    return Table(**{**given, **fields})


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "no end"), (0.04, "0.0 s"), (16.41, "16.4 s"), (1801.5, "30 min"), (7200.0, "2.0 h")],
)
def test_spans_are_said_as_people_say_them(seconds: float | None, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (one(), "APITimeoutError / 1 / 1.5 s"),
        (MISSED, "httpx2.ReadError NOT CAUGHT / 1 / 1.5 s"),
        (FOOLED, "LOOKED LIKE SUCCESS: the whole text, finish None / 1 / 1.5 s"),
        (ENDLESS, "STILL WAITING / 1 / >9.0 s"),
        (one(attempts=None), "APITimeoutError / - / 1.5 s"),
    ],
)
def test_a_cell_says_what_happened(result: Result, said: str) -> None:
    assert shown(result) == said


def test_every_form_names_what_looked_like_success_and_leads_to_the_wire() -> None:
    found = table(one(), FOOLED, MISSED, ENDLESS)
    for form in (text(found), markdown(found, "drillmaster sdk-check"), render(found)):
        assert "LOOKED LIKE SUCCESS" in form
        assert "NOT CAUGHT" in form
        assert "no end" in form
    assert "runs/x/openai/stall-stream/proxy.jsonl" in render(found)


def test_the_summary_counts_the_failures_without_a_fallback() -> None:
    said = summary(table(one(), FOOLED, MISSED, ENDLESS))
    assert "no fallback in 3 of 4 failures (1 looked like success, 1 raised past its own error class" in said[0]
    assert "no end (ping-stall; else 10 min under stall)" in said[0]


def test_under_clients_that_raise_for_no_status_by_themselves_it_is_said_that_the_check_looks() -> None:
    bare = Client(name="requests", dist="requests", dialect="openai_chat", family="HTTP clients", version="2.34.2")
    raised = one(client="requests", label="503", what="requests.exceptions.HTTPError", stream=False)
    last = text(table(raised, clients=(bare,))).splitlines()[-1]
    assert (
        last.startswith("requests: raised for a status because this check looks")
        and "takes a 503 for an answer" in last
    )
    assert "raise_for_status" not in text(table(one()))
    assert "raise_for_status" not in text(table(one(), clients=(bare,)))  # it was found, and not measured


def test_a_busy_machine_is_said_first() -> None:
    assert "busy" in summary(table(one(), late_s=0.8))[0]
    assert "busy" not in summary(table(one()))[0]


def test_what_was_not_run_and_what_met_nothing_is_said() -> None:
    found = table(
        one(), one(stream=False, outcome="not-met"), not_run=(NotRun(client="openai", label="x", why="no parameters"),)
    )
    assert "not run: x (openai): no parameters" in text(found)
    assert "not run: stall (openai whole): it met nothing to act on" in text(found)


def test_text_of_a_provider_cannot_become_markup() -> None:
    found = table(one(outcome="fooled", what="str '<script>alert(1)</script>'", fallback=False))
    assert "<script" not in render(found)
    assert "<script" not in markdown(found, "x")


def test_a_table_is_read_back_as_it_was_written() -> None:
    found = table(one(), FOOLED)
    assert strict.load_as(msgspec.json.encode(found), Table, place="t.json", fmt="json") == found


def test_only_what_matters_is_a_change() -> None:
    old = table(one(), FOOLED)
    assert changes(old, table(one(seconds=1.6, worst_s=601.0), FOOLED)) == []
    moved = changes(old, table(one(attempts=3), one(label="clean-end"), MISSED))
    assert len(moved) == 3
    assert moved[0].startswith("openai, stall, streamed: APITimeoutError / 1")
    assert "LOOKED LIKE SUCCESS" in moved[1]
    assert "new" in moved[2]
    assert "gone" in changes(old, table(one()))[0]


def test_a_new_version_is_a_change() -> None:
    client = Client(name="openai", dist="openai", dialect="openai_chat", family="SDKs", version="4.0.0")
    assert changes(table(one()), table(one(), clients=(client,))) == ["openai: 3.57.0 -> 4.0.0"]


def test_limits_and_worst_cases_that_moved_are_changes() -> None:
    own = {"openai": Defaults(connect_s=5.0, read_s=60.0, retries=1)}
    moved = changes(table(one()), table(one(worst_s=60.0), defaults=own))
    assert moved == [
        "openai: by default 5.0 s to connect, 10 min to read, 2 retries -> 5.0 s to connect, 60.0 s to read, 1 retries",
        "openai, stall, streamed: APITimeoutError / 1 / 1.5 s, worst 10 min -> APITimeoutError / 1 / 1.5 s, worst 60.0 s",
    ]
    assert len(changes(table(one()), table(one(worst_s=None)))) == 1
    assert len(changes(table(one(worst_s=None)), table(one()))) == 1


def test_tables_that_were_measured_otherwise_say_so_first() -> None:
    assert changes(table(one()), table(one(), limit_s=3.0, watch_s=15.0)) == [
        "measured with another --limit-s: 1.5 -> 3; cells may have moved for that alone",
        "measured with another --watch-s: 9 -> 15; cells may have moved for that alone",
    ]


def test_what_was_not_asked_for_is_not_gone() -> None:
    groq = Client(name="groq", dist="groq", dialect="groq", family="others", version="1.7.0")
    old = table(one(), one(stream=False), FOOLED, one(client="groq"))
    old = msgspec.structs.replace(old, clients=(*old.clients, groq))
    assert changes(old, table(one()), asked=True) == ["openai, stall, whole: gone, was APITimeoutError / 1 / 1.5 s"]
    assert changes(old, table(one(), one(stream=False), FOOLED)) == [
        "groq: 1.7.0 -> not there",
    ]


def test_a_client_that_one_of_two_tables_has_nothing_of_is_one_line() -> None:
    own, groq = (
        Defaults(connect_s=5.0, read_s=60.0, retries=2),
        Client(name="groq", dist="groq", dialect="groq", family="o"),
    )
    less, more = table(one()), table(one(), one(client="groq"), one(client="groq", stream=False))
    more = msgspec.structs.replace(more, clients=(*more.clients, groq), defaults={**more.defaults, "groq": own})
    assert changes(less, more) == ["groq: not there -> "]
    broken_now = msgspec.structs.replace(
        less, clients=more.clients, not_run=(NotRun(client="groq", label="all", why="ImportError", failed=True),)
    )
    assert changes(more, broken_now) == ["groq: was measured, and is not: ImportError"]
    assert changes(broken_now, more) == ["groq: was not measured, and is"]


def test_a_cell_that_is_no_result_has_no_fallback_and_no_worst_case_on_the_page() -> None:
    for outcome in ("not-met", "crashed"):
        page = render(table(one(), one(client="openai", label="x", outcome=outcome, fallback=None), MISSED))
        assert page.count("· worst") == 2
        assert "no fallback needed" not in page


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        ({"client": "*", "fault": "stall"}, ["groq, all: ImportError", "openai, stall: its process ended"]),
        ({"client": "groq", "fault": "503"}, ["groq, all: ImportError"]),
        ({"client": "openai", "fault": "503"}, []),
        ({"client": "openai", "fault": "clean*"}, ["openai, clean-end: it wanted to go elsewhere"]),
        ({"client": "openai", "fault": "tool-*"}, []),  # no check can measure these
    ],
)
def test_what_an_expectation_chose_and_nobody_measured_is_told(rule: dict[str, Any], chosen: list[str]) -> None:
    groq = NotRun(client="groq", label="all", why="ImportError", failed=True)
    elsewhere = NotRun(client="openai", label="clean-end", why="it wanted to go elsewhere", failed=True)
    tools = NotRun(client="every client", label="tool-unknown", why="no tools")
    crash = one(outcome="crashed", what="its process ended")
    found = table(crash, MISSED, not_run=(tools, groq, elsewhere))
    got = [what for _, what in unseen([Expectation(**rule)], found)]
    assert sorted(got) == sorted(chosen)


def test_a_clients_words_stay_on_their_line() -> None:
    found = table(one(), not_run=(NotRun(client="groq", label="all", why="no such\n\x1b[31mthing"),))
    assert "not run: all (groq): no such\\x0a\\x1b[31mthing\n" in text(found)
    assert "\x1b" not in markdown(found, "x")


def test_a_cells_link_holds_whatever_its_folder_is_called() -> None:
    assert 'href="a%20%23b%3F/openai/stall-stream/proxy.jsonl"' in render(table(one(), logs="a #b?"))


@pytest.mark.parametrize(
    ("rule", "result", "holds"),
    [
        ({"outcome": ("raised",)}, one(), True),
        ({"outcome": ("raised", "answered")}, FOOLED, False),
        ({"fallback": True}, MISSED, False),
        ({"fallback": True}, one(), True),
        ({"max_attempts": 1}, one(), True),
        ({"max_attempts": 1}, one(attempts=2), False),
        ({"max_attempts": 1}, one(attempts=None), False),  # not seen is not few
        ({"max_worst_s": 600}, one(), True),
        ({"max_worst_s": 60}, one(), False),
        ({"max_worst_s": 1e9}, ENDLESS, False),  # without an end is over every limit
    ],
)
def test_an_expectation_holds_or_does_not(rule: dict[str, Any], result: Result, holds: bool) -> None:
    said, idle = broken([Expectation(client="open*", fault="*", **rule)], [result])
    assert (said == [], idle) == (holds, [])


def test_an_expectation_that_chose_nothing_is_told() -> None:
    rules = [
        Expectation(client="groq", fault="*"),
        Expectation(client="*", fault="stall", stream=False),
        Expectation(client="*", fault="*"),
    ]
    assert broken(rules, [one()]) == ([], [0, 1])
    assert broken(rules[2:], [one(outcome="not-met")]) == ([], [0])


def test_expectations_need_a_source_an_owner_and_a_review() -> None:
    with pytest.raises(Problem, match="source"):
        strict.load_as(b"kind: sdk-expectations\nexpect: []\n", Expectations, place="e.yaml", fmt="yaml")
