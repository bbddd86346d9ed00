"""Plans that make no sense are refused before anything starts; plans that make little are warned about."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.plan import Plan
from drillmaster.sanity import (
    Numbers,
    Sanity,
    allowed_failures,
    check,
    compress,
    default_spend,
    fill_in,
    fitting_factor,
    is_loopback,
    least_requests,
    parse_factor,
    parse_listen,
    planned_requests,
    unnamed_seats,
    window_problem,
)

NOW_NS = parse_rfc3339("2026-11-29T15:00:00Z") or 0
RUNBOOK = Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=60, max_recovery_s=120)


def plan(**over: Any) -> Plan:
    """A plan that holds, with parts replaced: `traffic__every_s=1` is one field, `traffic={...}` a whole part."""
    base: dict[str, Any] = {
        "kind": "plan",
        "drill": "eviction",
        "service": "answers",
        "seats": {"lead": "Ada", "scribe": "Ben", "verifier": "Cem"},
        "target": {"url": "http://127.0.0.1:8000/answer?q={payload}", "payloads": ["a", "b"]},
        "traffic": {"every_s": 5, "time_limit_s": 30},
        "proxy": {"upstream": "https://api.openai.com"},
        "policy": "policy.yaml",
    }
    for key, value in over.items():
        part, _, field = key.partition("__")
        if field:
            base[part] = {**base.get(part, {}), field: value}
        else:
            base[part] = value
    return msgspec.convert(base, Plan, strict=False)


def look(this: Plan, **more: Any) -> Sanity:
    return check(this, **{"place": "plan.yaml", "wall_ns": NOW_NS, "numbers": RUNBOOK} | more)


def test_the_article_s_plan_holds() -> None:
    assert look(plan()).problems == ()


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("over", "pointer"),
    [
        ({"traffic__every_s": 0}, "/traffic/every_s"),
        ({"traffic__every_s": -1}, "/traffic/every_s"),
        ({"traffic__every_s": NAN}, "/traffic/every_s"),
        ({"traffic__time_limit_s": INF}, "/traffic/time_limit_s"),
        ({"traffic__every_s": 0.001}, "/traffic/every_s"),  # a drill is no load test
        ({"traffic": {"every_s": 0.01, "time_limit_s": 600}}, "/traffic"),  # 60,000 in flight
        ({"phases__baseline_s": 0}, "/phases/baseline_s"),
        ({"phases__fault_s": NAN}, "/phases/fault_s"),
        ({"phases__recovery_s": 4}, "/phases/recovery_s"),  # less than one period
        ({"phases__baseline_s": 90_000}, "/phases"),  # over a day
        ({"fault__linger_s": -1}, "/fault/linger_s"),
        ({"fault__linger_s": 301}, "/fault/linger_s"),  # longer than the recovery
        ({"stop__failed_ratio": 0}, "/stop/failed_ratio"),
        ({"stop__failed_ratio": 1.5}, "/stop/failed_ratio"),
        ({"stop__failed_ratio": NAN}, "/stop/failed_ratio"),
        ({"stop__over_requests": 0}, "/stop/over_requests"),
        ({"spend__max_requests": 0}, "/spend/max_requests"),
        ({"spend__max_requests": 179}, "/spend/max_requests"),  # baseline and recovery alone take 180
        ({"worker": {"cmd": []}}, "/worker/cmd"),
        ({"worker": {"cmd": ["x"], "ready_s": NAN}}, "/worker/ready_s"),
        ({"worker": {"cmd": ["x"]}, "timeline": "drill.jsonl"}, "/timeline"),
        ({"service": " "}, "/service"),
        ({"service": "a\nb"}, "/service"),
        ({"target__url": "ftp://127.0.0.1/"}, "/target/url"),
        ({"target__url": "127.0.0.1:8000"}, "/target/url"),
        ({"target__url": "http://127.0.0.1:99999/"}, "/target/url"),
        ({"target__url": "http://127.0.0.1:0/"}, "/target/url"),
        ({"target__url": "http://127.0.0.1/a b"}, "/target/url"),
        ({"target__url": "http://me:secret@127.0.0.1/"}, "/target/url"),
        ({"target__method": "get it"}, "/target/method"),
        ({"target__headers": {"X-A": "a\r\nHost: b"}}, "/target/headers"),
        ({"target__headers": {"bad name": "a"}}, "/target/headers"),
        ({"target__headers": {"Content-Length": "5"}}, "/target/headers"),
        ({"target__headers": {"Authorization": "Bearer 123"}}, "/target/headers/Authorization"),
        ({"target__payloads": ["a", " "]}, "/target/payloads/1"),
        ({"target": {"url": "http://127.0.0.1/?q={payload}"}}, "/target/payloads"),
        ({"target": {"url": "http://127.0.0.1/", "payloads": ["a"]}}, "/target/payloads"),
        ({"target__expect": {"status": []}}, "/target/expect/status"),
        ({"target__expect": {"status": [42]}}, "/target/expect/status"),
        ({"target__expect": {"pointer": "text"}}, "/target/expect/pointer"),
        ({"target__expect": {"pointer": "/a~2"}}, "/target/expect/pointer"),
        ({"target__expect": {"not_matching": "("}}, "/target/expect/not_matching"),
        ({"proxy": {"upstream": None}}, "/proxy/upstream"),
        ({"proxy": {"upstream": "http://api.openai.com"}}, "/proxy/upstream"),  # the key in the clear
        ({"proxy": {"upstream": "https://u:p@api.openai.com"}}, "/proxy/upstream"),
        ({"proxy": {"upstream": "https://api.openai.com/?a=b"}}, "/proxy/upstream"),
        ({"proxy__listen": "127.0.0.1:8000"}, "/target/url"),  # users would talk to the proxy
        ({"proxy": {"upstream": "http://localhost:8081/v1"}}, "/proxy/upstream"),  # the proxy to itself
        ({"proxy__listen": "8081"}, "/proxy/listen"),
        ({"proxy__listen": "somewhere:8081"}, "/proxy/listen"),
        ({"proxy__listen": "127.0.0.1:70000"}, "/proxy/listen"),
        ({"proxy__listen": "0.0.0.0:8081"}, "/proxy/listen"),
        ({"proxy__listen": "[::]:8081"}, "/proxy/listen"),
        ({"window": {"start": "2026-11-29", "end": "2026-11-30T00:00:00Z"}}, "/window/start"),
        ({"window": {"start": "2026-11-30T00:00:00Z", "end": "2026-11-29T00:00:00Z"}}, "/window"),
        ({"preflight": {"on_call_told": {"by": " ", "at": "2026-11-29T15:00:00Z"}}}, "/preflight/on_call_told/by"),
        ({"preflight": {"on_call_told": {"by": "Ada", "at": "yesterday"}}}, "/preflight/on_call_told/at"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_where_it_is_wrong(over: dict[str, Any], pointer: str) -> None:
    places = [problem.place for problem in look(plan(**over)).problems]
    assert f"plan.yaml: {pointer}" in places
    for problem in look(plan(**over)).problems:
        assert problem.found and problem.wanted and problem.remedy


@pytest.mark.parametrize(
    ("lead", "scribe"),
    [("Ada", "Ada"), ("Ada", "ada"), ("Ada", " Ada "), ("Ada  L", "ada l"), ("Zoë", "Zoe\u0308"), ("Ada", "Ａｄａ")],
)
def test_one_person_in_two_seats_is_refused_unless_it_is_a_rehearsal(lead: str, scribe: str) -> None:
    twice = plan(seats={"lead": lead, "scribe": scribe, "verifier": "Cem"})
    (problem,) = look(twice).problems
    assert isinstance(problem, Refused) and "--rehearsal" in problem.remedy
    assert look(twice, rehearsal=True).problems == ()


def test_seats_that_nobody_holds_are_named_and_refuse_nothing() -> None:
    nobody = plan(seats={"lead": "Ada", "scribe": " ", "verifier": ""})
    assert unnamed_seats(nobody) == ("scribe", "verifier")
    sane = look(nobody)
    assert sane.problems == () and any("REHEARSAL" in warning for warning in sane.warnings)


PERMIT = {"host": "staging.example", "owner": "Kim", "until": "2026-12-01", "max_per_s": 1, "max_requests": 1000}


def elsewhere(**permit: Any) -> Plan:
    return plan(target={"url": "https://staging.example/answer", "permit": PERMIT | permit})


def test_a_host_that_is_not_loopback_needs_permission_twice() -> None:
    bare = plan(target={"url": "https://staging.example/answer"})
    assert any("permission" in str(p) for p in look(bare).problems)
    (problem,) = look(elsewhere()).problems
    assert problem.place == "--permit-host"
    assert look(elsewhere(), permit_host="staging.example").problems == ()


@pytest.mark.parametrize(
    "permit",
    [
        {"host": "other.example"},
        {"owner": " "},
        {"until": "soon"},
        {"until": "2026-11-28"},
        {"until": "2026-11-29T15:20:00Z"},  # over before the drill would be
        {"max_per_s": 0.1},
        {"max_requests": 100},
    ],
)
def test_a_permission_that_does_not_cover_the_drill_is_none(permit: dict[str, Any]) -> None:
    assert look(elsewhere(**permit), permit_host="staging.example").problems != ()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("[::1]", True), ("localhost", True),
        ("::ffff:127.0.0.1", True), ("app.localhost", True), ("0.0.0.0", False), ("10.0.0.1", False),
        ("localhost.example", False), ("127.0.0.1.example", False), ("2130706433", False), ("", False),
        ("::ffff:10.0.0.1", False), ("fe80::1%lo", False), ("169.254.169.254", False),
    ],
)  # fmt: skip
def test_loopback_is_what_is_written_so(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("127.0.0.1:8081", ("127.0.0.1", 8081)), ("[::1]:0", ("::1", 0)), ("localhost:1", ("localhost", 1)),
        ("::1:80", None), ("127.0.0.1", None), (":80", None), ("127.0.0.1:", None), ("127.0.0.1:8081 ", None),
        ("example.com:80", None), ("127.0.0.1:-1", None),
    ],
)  # fmt: skip
def test_an_address_to_listen_on_is_an_ip_and_a_port(text: str, read: tuple[str, int] | None) -> None:
    assert parse_listen(text) == read


@pytest.mark.parametrize(
    ("ratio", "least"), [(0.0, 1), (0.01, 100), (0.03, 34), (0.005, 200), (0.1, 10), (1 / 3, 3), (0.99, 2)]
)
def test_a_budget_of_one_in_n_needs_n_requests(ratio: float, least: int) -> None:
    assert least_requests(ratio) == least


@pytest.mark.parametrize(
    ("ratio", "requests", "allowed"),
    [(0.01, 360, 3), (0.01, 180, 1), (0.01, 100, 1), (0.01, 99, 0), (0.0, 10**6, 0), (0.1, 30, 3)],
)
def test_a_budget_allows_so_many_failures(ratio: float, requests: int, allowed: int) -> None:
    assert allowed_failures(ratio, requests) == allowed


def test_limits_that_exclude_each_other_are_said_with_their_numbers() -> None:
    (warning,) = [w for w in look(plan()).warnings if "exclude" in w]
    assert "costs 12 requests" in warning and "180 allows 1" in warning
    over_run = Numbers(max_failed_ratio=0.1, failed_window="run", max_fallback_s=60)
    assert not [w for w in look(plan(), numbers=over_run).warnings if "exclude" in w]


def test_too_few_requests_to_tell_the_budget_are_refused_with_a_period_that_does() -> None:
    (problem,) = look(plan(traffic={"every_s": 10, "time_limit_s": 30})).problems
    assert "90 requests" in problem.found and "at least 100" in problem.wanted
    every_s = float(problem.remedy.rpartition(" ")[2])
    assert look(plan(traffic={"every_s": every_s, "time_limit_s": 30})).problems == ()


def test_a_budget_longer_than_its_window_is_refused() -> None:
    slow = Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=901, max_recovery_s=301)
    assert [p.place for p in look(plan(), numbers=slow).problems] == [
        "plan.yaml: /phases/fault_s",
        "plan.yaml: /phases/recovery_s",
    ]


@pytest.mark.parametrize(
    ("over", "word"),
    [
        ({"target": {"url": "http://127.0.0.1/answer"}}, "cache"),
        ({"target__payloads": ["same", "same"]}, "cache"),
        ({"fault__mode": "hang"}, "600 s"),
        ({"proxy__listen": "172.17.0.1:8081"}, "172.17.0.1"),
        ({"traffic__time_limit_s": 60}, "waits 60 s"),
        ({"traffic__time_limit_s": 900}, "nobody gives up"),  # as long as the fault
        ({"stop": {"failed_ratio": 0.5, "over_requests": 500}}, "over_requests"),
    ],
)
def test_what_can_work_but_should_not_is_a_warning(over: dict[str, Any], word: str) -> None:
    sane = look(plan(**over))
    assert sane.problems == ()
    assert any(word in warning for warning in sane.warnings)


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [
        ("2026-11-29T15:10:00Z", "2026-11-29T15:25:00Z", True),  # just so
        ("2026-11-29T15:10:01Z", "2026-11-29T15:30:00Z", False),  # begins too soon
        ("2026-11-29T15:00:00Z", "2026-11-29T15:24:59Z", False),  # would go on past it
        ("2026-11-29T16:10:00+01:00", "2026-11-29T16:25:00+01:00", True),
    ],
)
def test_a_fault_stays_inside_the_agreed_window(start: str, end: str, inside: bool) -> None:
    this = plan(window={"start": start, "end": end})
    from_ns = NOW_NS + 600 * 10**9
    problem = window_problem(this, place="plan.yaml", from_ns=from_ns, until_ns=from_ns + 900 * 10**9)
    assert (problem is None) is inside


def test_without_a_window_any_time_will_do() -> None:
    assert window_problem(plan(), place="p", from_ns=0, until_ns=1) is None


@pytest.mark.parametrize(
    ("text", "factor"),
    [("30x", 30), ("30X", 30), ("1.5x", 1.5), ("1", 1), ("0.5x", None), ("-2x", None), ("x", None), ("", None), ("nan", None),
     ("inf", None), ("1e3x", None), ("30xx", None)],
)  # fmt: skip
def test_a_factor_is_read_as_people_write_it(text: str, factor: float | None) -> None:
    assert parse_factor(text) == factor


def test_compression_divides_phases_and_period_and_leaves_seconds_of_budgets_alone() -> None:
    short = compress(
        plan(), 10, Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=60, max_recovery_s=30)
    )
    assert (short.phases.baseline_s, short.phases.fault_s, short.phases.recovery_s) == (60, 90, 30)
    assert short.traffic.every_s == 0.5 and short.traffic.time_limit_s == 30


def test_compression_keeps_enough_requests_to_tell_the_budget() -> None:
    few = plan(traffic={"every_s": 20, "time_limit_s": 30})
    tight = Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=10, max_recovery_s=10)
    assert look(compress(few, 30, tight), numbers=tight).problems == ()


@pytest.mark.parametrize(
    ("factor", "word"), [(30, "15x at most"), (16, "max_fallback_s"), (0.5, "at least 1"), (NAN, "at least 1")]
)
def test_compression_past_a_budget_is_refused_with_the_largest_factor_that_works(factor: float, word: str) -> None:
    numbers = Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=60, max_recovery_s=20)
    with pytest.raises(Refused, match=word):
        compress(plan(), factor, numbers)
    assert look(compress(plan(), 15, numbers), numbers=numbers).problems == ()


def test_compression_into_a_load_test_is_refused() -> None:
    numbers = Numbers(max_failed_ratio=0.0001, failed_window="fault", max_fallback_s=1, max_recovery_s=1)
    with pytest.raises(Refused, match=r"17\.99x at most"):
        compress(plan(), 100, numbers)
    compress(plan(), 17.99, numbers)


def test_a_factor_that_is_too_large_names_every_window_and_the_most_that_fits_all_of_them() -> None:
    numbers = Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=60, max_recovery_s=60)
    with pytest.raises(Refused) as refused:
        compress(plan(), 30, numbers)
    assert "fault_s of 30 s" in refused.value.found and "recovery_s of 10 s" in refused.value.found
    assert "at most 5x" in refused.value.wanted and "recovery_s" in refused.value.wanted
    compress(plan(), 5, numbers)


def fitting(this: Plan, numbers: Numbers, **more: Any) -> float:
    return fitting_factor(this, numbers, place="plan.yaml", wall_ns=NOW_NS, **more)


@pytest.mark.parametrize(
    ("over", "limits", "factor"),
    [
        ({}, {"max_fallback_s": 60, "max_recovery_s": 60}, 4),  # 5 would leave a recovery just as long as its budget
        ({}, {"max_fallback_s": 60, "max_recovery_s": 20}, 14),
        ({}, {"max_fallback_s": 1, "max_recovery_s": 1}, 29),  # 900 s of fault hold 30 s of patience, and more
        ({"traffic__time_limit_s": 2}, {"max_fallback_s": 1, "max_recovery_s": 1}, 30),
        (
            {"traffic__time_limit_s": 300},
            {"max_fallback_s": 1, "max_recovery_s": 1},
            2,
        ),  # a user can still give up in it
        ({"phases__baseline_s": 30}, {"max_fallback_s": 1, "max_recovery_s": 1}, 3),  # ten seconds of baseline at least
        ({}, {"max_fallback_s": 600, "max_recovery_s": 200}, 1.25),
        ({}, {"max_fallback_s": 900, "max_recovery_s": 300}, 1),  # no room
        ({"traffic__time_limit_s": 1000}, {"max_fallback_s": 1, "max_recovery_s": 1}, 1),
    ],
)
def test_the_largest_factor_that_fits_is_found(over: dict[str, Any], limits: dict[str, float], factor: float) -> None:
    numbers = Numbers(max_failed_ratio=0.01, failed_window="fault", **limits)
    assert fitting(plan(**over), numbers) == factor


def test_a_factor_that_fits_keeps_to_what_was_permitted() -> None:
    numbers = Numbers(max_failed_ratio=0.01, failed_window="fault", max_fallback_s=20, max_recovery_s=5)
    assert fitting(elsewhere(max_per_s=0.5, max_requests=1000), numbers, permit_host="staging.example") == 2


@given(
    fallback=st.floats(0.5, 1000),
    recovery=st.floats(0.5, 400),
    patience=st.floats(0.5, 1000),
    every=st.floats(0.5, 9),
    ratio=st.sampled_from([0.0, 0.01, 0.1]),
)
def test_a_factor_that_fits_leaves_a_drill_that_can_be_judged(
    fallback: float, recovery: float, patience: float, every: float, ratio: float
) -> None:
    numbers = Numbers(max_failed_ratio=ratio, failed_window="fault", max_fallback_s=fallback, max_recovery_s=recovery)
    this = plan(traffic={"every_s": every, "time_limit_s": patience})
    factor = fitting(this, numbers)
    if factor > 1:
        short = compress(this, factor, numbers)
        sane = look(short, numbers=numbers)
        assert sane.problems == () and not [w for w in sane.warnings if "nobody gives up" in w]
        assert fallback < short.phases.fault_s and recovery < short.phases.recovery_s


@given(
    factor=st.floats(1, 1000),
    ratio=st.sampled_from([0, 0.001, 0.01, 0.05, 0.5]),
    every=st.floats(0.05, 30),
    fallback=st.floats(0.1, 900),
    window=st.sampled_from(["fault", "run"]),
)
def test_whatever_compression_gives_can_tell_its_budget(
    factor: float, ratio: float, every: float, fallback: float, window: Any
) -> None:
    numbers = Numbers(max_failed_ratio=ratio, failed_window=window, max_fallback_s=fallback, max_recovery_s=1)
    this = plan(traffic={"every_s": every, "time_limit_s": 5})
    try:
        short = compress(this, factor, numbers)
    except Refused:
        return
    assert [p for p in look(short, numbers=numbers).problems if "in flight" not in p.found] == []


def test_a_plan_without_a_cap_gets_one_that_covers_it_ten_times() -> None:
    assert planned_requests(plan()) == 360
    assert default_spend(plan()).max_requests == 10 * 180 + 20


def test_keys_come_from_the_environment_and_only_by_name() -> None:
    given_values = {"Authorization": "Bearer ${KEY}", "X": "$KEY ${not a name}"}
    assert fill_in(given_values, {"KEY": "k1"}, place="p") == {"Authorization": "Bearer k1", "X": "$KEY ${not a name}"}
    with pytest.raises(Problem, match="export KEY"):
        fill_in(given_values, {}, place="p")
    assert look(plan(target__headers={"Authorization": "Bearer ${KEY}"})).problems == ()


# The fault


@pytest.mark.parametrize(
    ("fault", "pointer", "found"),
    [
        ({"mode": "no-such"}, "/fault: fault", "no-such"),
        ({"mode": "stall", "params": {"after_events": -1}}, "/fault: fault stall", ""),
        ({"mode": "reset", "rules": [{"mode": "503"}]}, "/fault", "rules beside mode"),
        ({"params": {"a": 1}, "rules": [{"mode": "503"}]}, "/fault", "rules beside mode"),
        ({"rules": [{"mode": "503"}, {"mode": "no-such"}]}, "/fault/rules/1: fault", "no-such"),
        ({"rules": [{"mode": "503", "share": 7}]}, "/fault/rules/0/share", "7"),
        ({"rules": [{"mode": "refused", "first": 1}]}, "/fault/rules/0/mode", "port"),
        ({"rules": [{"mode": "503", "schedule": [[900, 901]]}]}, "/fault/rules/0/schedule", "900 s"),
        ({"rules": [{"mode": "503", "when": {"dialect": "openai"}}]}, "/fault/rules/0/when/dialect", "openai"),
        (
            {"rules": [{"mode": "cut-stream", "when": {"stream": False}}]},
            "/fault/rules/0/when/stream",
            "false",
        ),
        # Nothing is left for the second; a share, a count or other conditions would leave it something.
        ({"rules": [{"mode": "503"}, {"mode": "reset"}]}, "/fault/rules/1", "reset behind 503"),
        (
            {"rules": [{"mode": "503", "when": {"model": "a"}}, {"mode": "stall", "when": {"model": "a"}}]},
            "/fault/rules/1",
            "stall behind 503",
        ),
        ({"rules": [{"mode": "reset"}, {"mode": "503"}]}, "/fault/rules/1", "503 behind reset"),
        # They relay the answer themselves.
        (
            {"rules": [{"mode": "throttle", "params": {"bytes_per_s": 9}}, {"mode": "503"}]},
            "/fault/rules/1",
            "503 behind throttle",
        ),
        (
            {"rules": [{"mode": "body-drip", "params": {"bytes_per_s": 9}}, {"mode": "stall"}]},
            "/fault/rules/1",
            "stall behind body-drip",
        ),
        (
            {"rules": [{"mode": "requests-per-minute", "params": {"requests": 9}}, {"mode": "503", "share": 0.1}]},
            "/fault/rules/1",
            "503 behind requests-per-minute",
        ),
        # Of streams nothing is left.
        ({"rules": [{"mode": "stall"}, {"mode": "cut-stream"}]}, "/fault/rules/1", "cut-stream behind stall"),
        (
            {"rules": [{"mode": "slow-tokens", "params": {"per_s": 9}}, {"mode": "503", "when": {"stream": True}}]},
            "/fault/rules/1",
            "503 behind slow-tokens",
        ),
    ],
)
def test_a_fault_that_cannot_be_or_meets_nobody_is_named_by_its_place(
    fault: dict[str, Any], pointer: str, found: str
) -> None:
    problem = look(plan(fault=fault)).problems[0]
    assert f"plan.yaml: {pointer}" in problem.place
    assert found in problem.found


def test_a_rule_that_will_hardly_meet_anybody_is_warned_of() -> None:
    said = " ".join(look(plan(fault={"rules": [{"mode": "503", "share": 0.001, "name": "rare"}]})).warnings)
    assert "rule rare would take 0.18 of the 180 user requests" in said
    said = " ".join(look(plan(fault={"rules": [{"mode": "503", "schedule": [[60, 61]], "name": "brief"}]})).warnings)
    assert "rule brief would take 0 of the 180 user requests" in said
    assert "rule" not in " ".join(look(plan(fault={"rules": [{"mode": "503", "share": 0.5}]})).warnings)


@pytest.mark.parametrize(
    "rules",
    [
        [{"mode": "503", "share": 0.5}, {"mode": "reset"}],
        [{"mode": "503", "first": 3}, {"mode": "reset"}],
        [{"mode": "503", "when": {"model": "a"}}, {"mode": "reset", "when": {"model": "b"}}],
        [{"mode": "first-byte-delay", "params": {"delay_ms": 9}}, {"mode": "503"}],
        [{"mode": "503", "when": {"header": {"authorization": "Bearer *", "x-tenant": "blue"}}}],
    ],
)
def test_rules_that_leave_one_another_something_are_sane(rules: list[dict[str, Any]]) -> None:
    assert look(plan(fault={"rules": rules})).problems == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", "Bearer a-token-of-ours"),
        ("X-Api-Key", "plain"),
        ("x-tenant", "sk-" + "proj-" + "abcdefghijklmnopqrstuvwxyz0123456789ABCD"),
    ],
)
def test_a_rule_that_holds_a_credential_is_refused_and_not_repeated(name: str, value: str) -> None:
    problems = look(plan(fault={"rules": [{"mode": "503", "when": {"header": {name: value}}}]})).problems
    assert len(problems) == 1
    assert "credential" in str(problems[0])
    assert "sha256" in str(problems[0])
    assert value not in str(problems[0])


def test_an_empty_list_of_rules_is_no_fault_for_everybody() -> None:
    with pytest.raises(msgspec.ValidationError):
        plan(fault={"rules": []})


def test_the_times_of_rules_shrink_with_the_phases() -> None:
    given = plan(fault={"rules": [{"mode": "503", "schedule": [[60, 120]], "flap": {"on_s": 30, "off_s": 30}}]})
    rule = compress(given, 2, RUNBOOK).fault.rules[0]
    assert rule.schedule == ((30, 60),)
    assert rule.flap is not None
    assert rule.flap.on_s == 15
