"""May a call that failed be sent again: the law, row by row, and what holds for all of them."""

import math
import resource
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards import Ask, Decision, find, names
from drillmaster.guards.retry import CALLS, PINNED, REASONS, FailedCall, Retry
from drillmaster.rules.call_state import Held
from drillmaster.rules.retry_budget import Spent
from drillmaster.rules.retryable import GRPC, HTTP, SAFE_METHODS, WEBSOCKET, retryable

LIMITS = Retry(max_calls=4, deadline_ms=300_000, base_ms=1_000, cap_ms=120_000, budget_tokens=10, refund=0.1)


def call(**facts: Any) -> FailedCall:
    usual = {"source": PINNED, "protocol": "http", "method": "POST", "code": 503, "attempt": 1, "elapsed_ms": 20}
    return FailedCall(**{**usual, "idempotency_key": "k-1", **facts})


def decided(facts: FailedCall, state: Spent | None = None) -> tuple[str, int]:
    _, decision = LIMITS.step(state, facts, 0)
    assert decision.allowed == (decision.reason == "pinned-status")
    assert decision.reason in REASONS
    return decision.reason, decision.wait_ms


@pytest.mark.parametrize(
    ("facts", "reason", "wait_ms"),
    [
        # the article's own tests
        ({}, "pinned-status", 1_000),
        ({"idempotency_key": ""}, "mutating-without-idempotency", 0),
        ({"code": 404}, "status-not-retryable", 0),
        ({"code": 409}, "status-not-retryable", 0),
        ({"source": "free-model"}, "unpinned-source", 0),
        ({"asked_wait_ms": 3_000}, "pinned-status", 3_000),
        # PUT and DELETE overwrite what came in between; methods are case-sensitive, and what has no rule is none
        ({"method": "PUT", "idempotency_key": ""}, "mutating-without-idempotency", 0),
        ({"method": "DELETE", "idempotency_key": ""}, "mutating-without-idempotency", 0),
        ({"method": "PATCH", "idempotency_key": " \t"}, "mutating-without-idempotency", 0),
        ({"method": "GET", "idempotency_key": ""}, "pinned-status", 1_000),
        *(({"method": one}, "method-unknown", 0) for one in ("post", "Post", " POST", "BREW", "QUERY", "CONNECT", "")),
        # sources
        *(({"source": one}, "unpinned-source", 0) for one in ("", "Pinned-Map", "pinned-map ", "model", "pinned")),
        ({"source": None}, "facts-unusable", 0),
        ({"source": 0}, "facts-unusable", 0),
        # nobody comes earlier than asked: over the cap it is somebody else's, with the whole wait
        ({"asked_wait_ms": 120_000}, "pinned-status", 120_000),
        ({"asked_wait_ms": 120_001}, "retry-after-over-cap", 120_001),
        ({"asked_wait_ms": 3_600_000, "code": 429}, "retry-after-over-cap", 3_600_000),
        ({"asked_wait_ms": 277_403_000}, "retry-after-over-cap", 277_403_000),
        # 0, or a date that has passed, asks for nothing: workers that all heard it do not come at once
        ({"asked_wait_ms": 0}, "pinned-status", 1_000),
        ({"asked_wait_ms": 0, "jitter": 0.25}, "pinned-status", 250),
        ({"asked_unreadable": True}, "retry-after-unreadable", 0),
        # a stream is sent once
        ({"replayable": False}, "body-sent-once", 0),
        ({"replayable": False, "code": 404}, "status-not-retryable", 0),
        ({"replayable": "yes"}, "facts-unusable", 0),
        # routes have limits of their own
        ({"route": "refunds"}, "other-route", 0),
        ({"route": None}, "facts-unusable", 0),
        # how many: calls are counted, the first one too
        ({"attempt": 3}, "pinned-status", 4_000),
        ({"attempt": 4}, "budget-exhausted", 0),
        *(({"attempt": one}, "facts-unusable", 0) for one in (0, -5, math.nan, 1.5, "1", True, None, 10**6)),
        # how long
        ({"elapsed_ms": 300_000}, "budget-exhausted", 0),
        ({"elapsed_ms": 299_500}, "deadline", 1_000),
        ({"elapsed_ms": 250_000, "asked_wait_ms": 60_000}, "deadline", 60_000),
        *(({"elapsed_ms": one}, "facts-unusable", 0) for one in (-1, math.inf, "20", 2**60)),
        *(({"asked_wait_ms": one}, "facts-unusable", 0) for one in (-1, math.nan, "3", True, [3_000])),
        *(({"jitter": one}, "facts-unusable", 0) for one in (-0.1, 1.1, math.nan, "1", True)),
        ({"jitter": 0.5}, "pinned-status", 500),
        ({"jitter": 0}, "pinned-status", 0),
        # ends
        *(({"code": one}, "pinned-status", 1_000) for one in (408, 425, 429, 502, 503, 504)),
        *(({"code": one}, "status-not-retryable", 0) for one in (200, 400, 401, 403, 422, 500, 501, 505, 507, 511)),
        *(({"code": one}, "status-not-retryable", 0) for one in (520, 529, 599, 0, -503)),
        ({"code": None}, "status-not-retryable", 0),
        ({"code": "503"}, "facts-unusable", 0),
        ({"code": 503.0}, "facts-unusable", 0),
        ({"protocol": "grpc", "code": 14}, "pinned-status", 1_000),
        ({"protocol": "grpc", "code": 8}, "pinned-status", 1_000),
        *(({"protocol": "grpc", "code": one}, "status-not-retryable", 0) for one in (0, 1, 2, 3, 4, 5, 7, 9, 10, 13, 15, 16, 503)),
        *(({"protocol": "websocket", "code": one}, "pinned-status", 1_000) for one in (1001, 1012, 1013)),
        *(({"protocol": "websocket", "code": one}, "status-not-retryable", 0) for one in (1000, 1002, 1006, 1008, 4000)),
        ({"protocol": "constructor"}, "status-not-retryable", 0),
        ({"protocol": "__proto__"}, "status-not-retryable", 0),
    ],
)  # fmt: skip  # one case a line
def test_the_first_rule_that_holds_decides(facts: dict[str, Any], reason: str, wait_ms: int) -> None:
    assert decided(call(**facts)) == (reason, wait_ms)


def test_a_body_and_a_prompt_have_no_field_to_arrive_in() -> None:
    for extra in ("body", "prompt", "message", "text", "retry"):
        with pytest.raises(TypeError):
            call(**{extra: "retry this"})
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**msgspec.to_builtins(call()), extra: "x"}, FailedCall)


@pytest.mark.parametrize(
    "field",
    [{"max_calls": 0}, {"max_calls": 101}, {"deadline_ms": 0}, {"cap_ms": -1}, {"refund": 2}, {"budget_tokens": 0}],
)
def test_a_limit_out_of_range_is_refused_where_it_is_read(field: dict[str, Any]) -> None:
    whole = msgspec.to_builtins(LIMITS)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**whole, **field}, Retry)
    for name in ("max_calls", "deadline_ms", "base_ms", "cap_ms", "budget_tokens", "refund"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({key: value for key, value in whole.items() if key != name}, Retry)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_calls": one} for one in (None, math.nan, math.inf, 0, -1, 101, "3", True, 2.0)),
        *({"deadline_ms": one} for one in (None, math.nan, 0, "30000")),
        *({"base_ms": one} for one in (0, -1, 1.5)),
        *({"cap_ms": one} for one in (math.inf, 0, 86_400_001)),
        *({"budget_tokens": one} for one in (0, math.nan, None)),
        *({"refund": one} for one in (-0.1, 1.1, math.nan, "0.1", True)),
        *({"route": one} for one in (None, "x" * 201, "a\0b", "a\nb", "\ud800")),
        {"budget": "a\0b"},
        {"dialect": "openai"},
        {"hold_ms": 5},
        {"keep_ms": 5},
        {"hold_ms": 0, "keep_ms": 5},
        {"hold_ms": 5, "keep_ms": math.nan},
        {"hold_ms": True, "keep_ms": 5},
    ],
    ids=str,
)
def test_limits_that_are_none_are_refused_where_they_are_made_in_code_too(wrong: dict[str, Any]) -> None:
    whole = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
    with pytest.raises(ValueError, match="|".join([*wrong, "both or neither"])):
        Retry(**{**whole, **wrong})


def repaid(state: Spent | None, calls: int, mark: str) -> Spent | None:
    asked = LIMITS.repays(calls, mark)
    assert asked is not None and asked.key == "" and LIMITS.LAW is not None
    after: Spent | None = LIMITS.LAW.step(state, asked.question, 0).state
    return after


def test_retries_fade_in_an_outage_and_come_back_with_good_calls() -> None:
    state: Spent | None = None
    for left in range(9, -1, -1):
        state, decision = LIMITS.step(state, call(), 0)
        assert (decision.allowed, decision.left) == (True, left)
    assert decided(call(), state) == ("retry-budget", 1_000)
    state = repaid(state, 9, "first")
    assert decided(call(), state)[0] == "retry-budget"
    assert decided(call(), repaid(state, 1, "first"))[0] == "retry-budget"  # the same giving, told twice
    assert decided(call(), repaid(state, 1, "second"))[0] == "pinned-status"
    state = repaid(state, 10**9, "many")
    assert state is not None and state.milli == 0


def test_a_refund_of_nothing_asks_for_nothing() -> None:
    assert msgspec.structs.replace(LIMITS, refund=0.0).repays(10, "m") is None
    assert LIMITS.repays(0, "m") is None


def test_what_is_denied_for_another_reason_takes_no_token() -> None:
    for facts in ({"code": 404}, {"attempt": 4}, {"idempotency_key": ""}, {"asked_wait_ms": 10**9}, {"source": "x"}):
        assert isinstance(LIMITS.asks(call(**facts)), Decision)
        assert LIMITS.step(Spent(3_500), call(**facts), 0)[0] == Spent(3_500)


def test_routes_share_a_budget_by_its_name_and_have_limits_of_their_own() -> None:
    refunds = msgspec.structs.replace(LIMITS, route="refunds", budget="ledger", max_calls=2)
    reads = msgspec.structs.replace(LIMITS, route="reads", budget="ledger")
    asked = [one.asks(call(route=one.route)) for one in (refunds, reads)]
    assert all(isinstance(one, Ask) and one.key == "ledger" for one in asked)
    assert refunds.asks(call(route="refunds", attempt=2)) == Decision(allowed=False, reason="budget-exhausted")
    assert refunds.asks(call(route="reads")) == Decision(allowed=False, reason="other-route")
    assert refunds.asks(call()) == Decision(allowed=False, reason="other-route")


KEPT = msgspec.structs.replace(LIMITS, route="refunds", hold_ms=60_000, keep_ms=86_400_000)


def test_a_call_with_a_key_is_told_to_the_store_by_the_keys_digest_alone() -> None:
    begun = KEPT.says("begin", "refund-9f3c", holder="h1")
    assert begun is not None and "refund" not in begun.key and len(begun.key) == 64
    again = KEPT.says("wait", "refund-9f3c", holder="h1", wait_ms=2**53)
    assert again is not None and again.key == begun.key
    other = msgspec.structs.replace(KEPT, route="holds").says("begin", "refund-9f3c", holder="h1")
    assert other is not None and other.key != begun.key
    assert KEPT.says("begin", "", holder="h1") is None and KEPT.says("begin", " ", holder="h1") is None
    assert LIMITS.says("begin", "refund-9f3c", holder="h1") is None


@pytest.mark.parametrize(
    ("why", "wait_us", "reason", "wait_ms"),
    [
        ("in-flight", 59_000_001, "call-in-flight", 59_001),
        ("early", 1, "call-early", 1),
        ("done", 0, "call-done", 0),
        ("spent", 0, "budget-exhausted", 0),
        ("lost", 0, "call-lost", 0),
    ],
)
def test_why_a_call_may_not_begin_is_a_reason_of_the_set(why: str, wait_us: int, reason: str, wait_ms: int) -> None:
    told = Held(allowed=False, why=why, calls=1, wait_us=wait_us)
    assert KEPT.hears(told) == Decision(allowed=False, reason=reason, wait_ms=wait_ms)
    assert reason in REASONS


def test_two_workers_and_a_crash_by_the_law() -> None:
    def says(what: Any, holder: str, state: Any, now_s: int, wait_ms: int = 0) -> Any:
        asked = KEPT.says(what, "k", holder=holder, wait_ms=wait_ms)
        assert asked is not None
        return CALLS.step(state, asked.question, now_s * 1_000_000)

    first = says("begin", "one", None, 0)
    assert KEPT.hears(first.told) is None and first.told.calls == 1
    second = says("begin", "two", first.state, 10)
    assert KEPT.hears(second.told) == Decision(allowed=False, reason="call-in-flight", wait_ms=50_000)
    third = says("begin", "two", second.state, 60)  # the first one crashed
    assert KEPT.hears(third.told) is None and third.told.calls == 2
    left = says("leave", "two", third.state, 61, wait_ms=3_600_000)
    early = says("begin", "three", left.state, 62)
    assert KEPT.hears(early.told) == Decision(allowed=False, reason="call-early", wait_ms=3_599_000)


def test_keys_are_kept_by_two_limits_or_by_none() -> None:
    with pytest.raises(msgspec.ValidationError, match="both or neither"):
        msgspec.convert({**msgspec.to_builtins(LIMITS), "hold_ms": 5}, Retry)


@given(
    code=st.one_of(st.none(), st.integers(0, 1_100)),
    method=st.sampled_from([*sorted(SAFE_METHODS), "PUT", "POST", "DELETE", "PATCH", "put", "X"]),
    attempt=st.integers(1, 6),
    elapsed=st.integers(0, 400_000),
    asked=st.one_of(st.none(), st.integers(0, 10**7)),
    jitter=st.floats(0, 1),
    key=st.sampled_from(["", "k"]),
)
def test_an_answer_of_yes_keeps_every_rule(
    code: int | None, method: str, attempt: int, elapsed: int, asked: int | None, jitter: float, key: str
) -> None:
    facts = call(
        code=code,
        method=method,
        attempt=attempt,
        elapsed_ms=elapsed,
        asked_wait_ms=asked,
        jitter=jitter,
        idempotency_key=key,
    )
    _, decision = LIMITS.step(None, facts, 0)
    assert decision.reason in REASONS
    if decision.allowed:
        assert retryable("http", code) is not None
        assert attempt < LIMITS.max_calls
        assert elapsed + decision.wait_ms <= LIMITS.deadline_ms
        assert decision.wait_ms <= LIMITS.cap_ms
        assert asked is None or decision.wait_ms >= asked
        assert method in SAFE_METHODS or key


def test_every_row_names_its_source_and_is_found_by_its_own_number() -> None:
    for protocol, table in (("http", HTTP), ("grpc", GRPC), ("websocket", WEBSOCKET)):
        for code, end in table.items():
            assert retryable(protocol, code) is end and end.code == code
            assert end.source and end.name and end.link.startswith("https://")
        assert retryable(protocol, True) is None


def test_the_guard_is_found_by_its_name_and_a_near_miss_is_told() -> None:
    assert "retry" in names() and find("retry") is Retry
    with pytest.raises(Exception, match="did you mean retry"):
        find("rety")


def test_a_worker_that_imports_it_pays_for_nothing_else() -> None:
    code = (
        "import sys, time; t = time.perf_counter(); before = set(sys.modules)\n"
        "import drillmaster.guards.retry\nprint(*sorted(set(sys.modules) - before))"
    )
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {
        "asyncio",
        "ssl",
        "socket",
        "click",
        "jinja2",
        "subprocess",
        "http.client",
        "openai",
        "httpx",
        "sqlite3",
    }
    ours = {name.split(".")[1] for name in loaded if name.startswith("drillmaster.")}
    assert ours <= {"guards", "rules", "errors"}


def test_the_import_costs_less_than_fifty_milliseconds_of_a_process() -> None:
    # Of CPU, and the best of many, so that it holds beside other work on the same core.
    least_s = min(cpu_s("pass") for _ in range(5))
    assert any(cpu_s("import drillmaster.guards.retry") - least_s < 0.05 for _ in range(40))


def cpu_s(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
