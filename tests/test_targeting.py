"""Which requests a rule meets: by look, by number, by time, and by a lot that knows no order of arrival."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.targeting import (
    Aim,
    Asked,
    Flap,
    Ramp,
    Rule,
    When,
    faster,
    fingerprint,
    label,
    most_taken,
    named,
    on_ratio,
    what_is_wrong,
)


def asked(body: bytes = b"{}", **over: Any) -> Asked:
    header = {name.lower(): value for name, value in over.pop("header", {}).items()}
    given: dict[str, Any] = {
        "method": "POST",
        "path": "/v1/chat/completions",
        "header": header.get,
        "dialect": "openai_chat",
        "key": "00112233445566aa",
        "model": "gpt-4o-mini",
        "stream": True,
        "tools": False,
        "print": fingerprint("POST", b"/v1/chat/completions", body),
    }
    return Asked(**{**given, **over})


def rule(**fields: Any) -> Rule:
    return msgspec.convert({"mode": "reset", "name": "r", **fields}, Rule)


def taken(aim: Aim, requests: list[Asked], since_s: float = 1.0) -> list[int]:
    return [n for n, request in enumerate(requests) if aim.takes(request, since_s) is not None]


# By look


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"method": "POST"},
        {"path": "/v1/chat/*"},
        {"path": "*/completions"},
        {"header": {"X-Tenant": "blu?"}},
        {"header": {"x-tenant": "*"}},
        {"dialect": "openai_chat"},
        {"model": "gpt-4o*"},
        {"stream": True},
        {"tools": False},
        {"key": "00112233445566aa"},
        {"method": "POST", "path": "/v1/*", "model": "gpt-4o-mini", "stream": True},
    ],
)
def test_a_request_that_looks_as_the_rule_says_fits(when: dict[str, Any]) -> None:
    request = asked(header={"x-tenant": "blue"})
    assert Aim(rule(when=when), 1).fits(request)


@pytest.mark.parametrize(
    "when",
    [
        {"method": "GET"},
        {"path": "/v1/chat"},
        {"path": "/V1/chat/*"},
        {"header": {"X-Tenant": "red"}},
        {"header": {"x-other": "*"}},
        {"dialect": "anthropic"},
        {"model": "gpt-4o"},
        {"stream": False},
        {"tools": True},
        {"key": "0000000000000000"},
        {"method": "POST", "model": "claude*"},
    ],
)
def test_one_thing_that_is_otherwise_is_enough_not_to_fit(when: dict[str, Any]) -> None:
    assert not Aim(rule(when=when), 1).fits(asked(header={"x-tenant": "blue"}))


def test_a_request_that_does_not_say_asks_for_no_stream_and_offers_no_tools() -> None:
    silent = asked(stream=None, tools=None, model=None)
    assert Aim(rule(when={"stream": False, "tools": False}), 1).fits(silent)
    assert not Aim(rule(when={"model": "*"}), 1).fits(silent)


def test_a_body_that_was_not_read_leaves_the_rule_undecided_and_only_where_it_is_needed() -> None:
    unread = asked(print=None, model=None, stream=None, tools=None)
    needs = Aim(rule(when={"stream": False}), 1)
    assert needs.takes(unread, 0) is None
    assert (needs.undecided, needs.matched) == (1, 0)
    head_only = Aim(rule(when={"path": "/v1/*"}), 1)
    assert head_only.takes(unread, 0) is not None
    assert head_only.undecided == 0


# By number


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"first": 3}, [0, 1, 2]),
        ({"skip": 2}, [2, 3, 4, 5, 6, 7, 8, 9]),
        ({"skip": 2, "first": 2}, [2, 3]),
        ({"every": 3}, [2, 5, 8]),
        ({"every": 3, "skip": 1}, [3, 6, 9]),
        ({"every": 3, "first": 2}, [2, 5]),
        ({"nth": [1, 4, 99]}, [0, 3]),
    ],
)
def test_numbers_choose_in_the_order_of_arrival(fields: dict[str, Any], wanted: list[int]) -> None:
    this = rule(**fields)
    assert taken(Aim(this, 1), [asked(b"%d" % n) for n in range(10)]) == wanted
    assert most_taken(this, 10) == len(wanted)


def test_only_what_fits_is_counted() -> None:
    requests = [asked(b"%d" % n, model="gpt-4o" if n % 2 else "o3") for n in range(10)]
    assert taken(Aim(rule(when={"model": "o3"}, every=2), 1), requests) == [2, 6]


# By time


def test_a_schedule_has_its_spans_with_their_starts_and_without_their_ends() -> None:
    this = rule(schedule=[[0, 2], [5, 6]])
    on = [s for s in (0, 1.999, 2, 4.99, 5, 5.99, 6) if Aim(this, 1).takes(asked(), s) is not None]
    assert on == [0, 1.999, 5, 5.99]


def test_flapping_is_on_first_and_off_then() -> None:
    this = rule(flap={"on_s": 2, "off_s": 3})
    assert [s for s in range(11) if Aim(this, 1).takes(asked(), s) is not None] == [0, 1, 5, 6, 10]


def test_what_comes_while_the_rule_is_off_is_not_counted() -> None:
    aim = Aim(rule(schedule=[[10, 20]], first=1), 1)
    assert aim.takes(asked(), 1) is None
    assert aim.takes(asked(), 11) is not None
    assert (aim.matched, aim.counted, aim.taken) == (2, 1, 1)


def test_a_ramp_moves_the_share_and_stays_at_its_end() -> None:
    this = rule(share=0.2, ramp={"to": 0.8, "over_s": 10})
    for since_s, share in ((0, 0.2), (5, 0.5), (10, 0.8), (1_000, 0.8)):
        aim = Aim(this, 7)
        part = len(taken(aim, [asked(b"%d" % n) for n in range(4_000)], since_s)) / 4_000
        assert abs(part - share) < 0.04, since_s


def test_times_are_divided_by_a_factor() -> None:
    this = faster(rule(schedule=[[10, 20]], flap={"on_s": 4, "off_s": 6}, share=0.5, ramp={"to": 1, "over_s": 60}), 10)
    assert (this.schedule, this.flap, this.ramp) == (((1, 2),), Flap(on_s=0.4, off_s=0.6), Ramp(to=1, over_s=6))


# By lot


@given(seed=st.integers(0, 2**32), order=st.randoms(use_true_random=False), share=st.floats(0.05, 0.95))
def test_fates_are_the_same_in_any_order_of_arrival(seed: int, order: random.Random, share: float) -> None:
    requests = [asked(b"%d" % (n % 30)) for n in range(90)]  # each comes three times
    shuffled = requests.copy()
    order.shuffle(shuffled)

    def fates(these: list[Asked]) -> list[tuple[bytes | None, int, float | None]]:
        aim, seen, out = Aim(rule(share=share), seed), dict[bytes | None, int](), []
        for request in these:
            seen[request.print] = seen.get(request.print, 0) + 1
            fate = aim.takes(request, 0)
            out.append((request.print, seen[request.print], None if fate is None else fate.random()))
        return sorted(out, key=lambda row: row[:2])  # type: ignore[arg-type, return-value]  # prints are bytes here

    assert fates(requests) == fates(shuffled)


def test_a_share_is_a_share_and_another_seed_or_rule_draws_another() -> None:
    requests = [asked(b"%d" % n) for n in range(5_000)]
    first = taken(Aim(rule(share=0.25), 1), requests)
    assert abs(len(first) - 1_250) < 125
    assert taken(Aim(rule(share=0.25), 1), requests) == first
    assert taken(Aim(rule(share=0.25), 2), requests) != first
    assert taken(Aim(rule(share=0.25, name="other"), 1), requests) != first


def test_the_same_request_again_draws_again() -> None:
    fates = taken(Aim(rule(share=0.5), 3), [asked()] * 200)
    assert 60 < len(fates) < 140


def test_the_fingerprint_is_what_was_asked_and_not_the_drills_own_nonce() -> None:
    nonce, other = b"dmn0123456789abcdef", b"dmnfedcba9876543210"
    same = fingerprint("POST", b"/v1?x=" + nonce, b'{"q":"hi ' + nonce + b'"}')
    assert same == fingerprint("POST", b"/v1?x=" + other, b'{"q":"hi ' + other + b'"}')
    assert same != fingerprint("POST", b"/v1?x=", b'{"q":"ho "}')
    assert same != fingerprint("PUT", b"/v1?x=", b'{"q":"hi "}')


def test_what_is_remembered_of_fingerprints_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drillmaster.targeting.MAX_FINGERPRINTS", 10)
    aim = Aim(rule(share=0.5), 1)
    taken(aim, [asked(b"%d" % n) for n in range(100)])
    assert len(aim._seen) == 10


# What makes no sense

SCOPES = {"reset": "exchange", "503": "exchange", "refused": "port", "rst-on-accept": "connection"}


def wrongs(*rules: dict[str, Any]) -> list[str]:
    these = tuple(msgspec.convert({"mode": "reset", **one}, Rule) for one in rules)
    return [wrong.pointer for wrong in what_is_wrong(these, SCOPES.__getitem__, "/rules")]


@pytest.mark.parametrize(
    ("fields", "ratio"),
    [
        ({}, 1.0),
        ({"schedule": [[0, 25]]}, 0.25),
        ({"schedule": [[90, 200]]}, 0.1),
        ({"schedule": [[50, 60], [0, 20], [10, 30]]}, 0.4),
        ({"schedule": [[100, 200]]}, 0.0),
        ({"flap": {"on_s": 1, "off_s": 3}}, 0.25),
        ({"schedule": [[0, 50]], "flap": {"on_s": 1, "off_s": 1}}, 0.25),
    ],
)
def test_a_rule_is_on_for_a_part_of_its_window(fields: dict[str, Any], ratio: float) -> None:
    assert on_ratio(rule(**fields), 100.0) == pytest.approx(ratio)


def test_several_rules_are_called_by_their_first_faults() -> None:
    tags = ("stall", "503", "stall", "reset", "hang", "throttle", "refusal")
    labels = [label([rule(mode=tag) for tag in tags[:n]]) for n in (1, 3, 6, 7)]
    assert labels == [
        "stall",
        "stall + 503",
        "stall + 503 + reset + hang + throttle",
        "stall + 503 + reset + hang + 2 more",
    ]


def test_a_body_that_cannot_be_read_is_undecided_where_a_rule_looks_into_it_and_only_there() -> None:
    coded = asked(model=None, stream=None, tools=None, legible=False)
    for inside in ({"model": "*"}, {"stream": False}, {"tools": False}):
        aim = Aim(rule(when=inside), 1)
        assert aim.takes(coded, 1.0) is None
        assert (aim.undecided, aim.matched) == (1, 0)
    for outside in ({"share": 0.999999}, {"when": {"method": "POST"}}):
        aim = Aim(rule(**outside), 1)
        assert aim.takes(coded, 1.0) is not None


@pytest.mark.parametrize(
    ("one", "pointer"),
    [
        ({"share": 0}, "/share"),
        ({"share": 1.5}, "/share"),
        ({"share": float("nan")}, "/share"),
        ({"ramp": {"to": 2, "over_s": 1}}, "/ramp/to"),
        ({"ramp": {"to": 1, "over_s": 0}}, "/ramp/over_s"),
        ({"share": 0, "ramp": {"to": 0, "over_s": 1}}, "/ramp"),
        ({"nth": [0]}, "/nth"),
        ({"nth": [1], "first": 2}, "/nth"),
        ({"skip": -1}, "/skip"),
        ({"every": 0}, "/every"),
        ({"first": 0}, "/first"),
        ({"schedule": [[2, 1]]}, "/schedule/0"),
        ({"schedule": [[0, float("inf")]]}, "/schedule/0"),
        ({"flap": {"on_s": 0, "off_s": 1}}, "/flap/on_s"),
        ({"flap": {"on_s": 1, "off_s": float("nan")}}, "/flap/off_s"),
        ({"name": "two words"}, "/name"),
        ({"when": {"key": "sk-live"}}, "/when/key"),
        ({"when": {"method": "post"}}, "/when/method"),
        ({"when": {"path": "v1/*"}}, "/when/path"),
        ({"when": {"path": "/v1/chat?model=a"}}, "/when/path"),
        ({"when": {"method": "P*"}}, "/when/method"),
        ({"when": {"method": ""}}, "/when/method"),
        ({"when": {"model": ""}}, "/when/model"),
        ({"when": {"header": {"x-tenant": ""}}}, "/when/header/x-tenant"),
        ({"when": {"header": {"Content-Length": "*"}}}, "/when/header"),
        ({"name": "x" * 41}, "/name"),
        ({"when": {"header": {"x tenant:": "a"}}}, "/when/header"),
        ({"when": {"model": "m" * 4_000}}, ""),
    ],
)
def test_a_senseless_rule_is_named_by_its_place(one: dict[str, Any], pointer: str) -> None:
    assert f"/rules/0{pointer}" in wrongs(one)


def test_a_sensible_rule_is_not_complained_of() -> None:
    assert (
        wrongs({"share": 0.1, "when": {"path": "/v1/*"}, "schedule": [[0, 5]], "flap": {"on_s": 1, "off_s": 1}}) == []
    )
    assert wrongs({"share": 0, "ramp": {"to": 1, "over_s": 5}}) == []
    assert wrongs({"mode": "refused"}) == []


def test_a_fault_below_requests_takes_no_matcher_and_no_company() -> None:
    assert wrongs({"mode": "refused", "share": 0.5}) == ["/rules/0/mode"]
    assert wrongs({"mode": "rst-on-accept"}, {"mode": "503"}) == ["/rules/0/mode"]


def test_a_name_stands_for_one_rule_and_is_given_where_none_is() -> None:
    assert wrongs({"name": "a"}, {"name": "a"}) == ["/rules/1/name"]
    assert wrongs({"name": "r2"}, {}) == ["/rules/1/name"]
    assert [one.name for one in named((Rule(mode="reset"), Rule(mode="503", name="x")))] == ["r1", "x"]


def test_a_rule_without_conditions_is_plain_whatever_its_params() -> None:
    assert Rule(mode=503, params={"a": 1}).plain
    assert not Rule(mode="503", when=When(stream=True)).plain
