"""The registry of chaos flags, and the plan's section of what is on."""

import msgspec
import pytest

from drillmaster.errors import Problem
from drillmaster.friday.flags import (
    Aim,
    FlagsSection,
    Hits,
    Registry,
    Switched,
    expected_success,
    last_instant_ns,
    load_registry,
    plain,
    what_is_wrong,
)

DAY_NS = 86_400 * 1_000_000_000
TIMEOUT = (
    "{name: toolTimeout, owner: tools, purpose: retries recover, deadline: 2027-01-31, auto_off_s: 300,"
    " kind: timeout, params: {max_s: 30}}"
)


def registry(*flags: str) -> Registry:
    return load_registry(text(*flags), place="flags.yaml")


def text(*flags: str) -> bytes:
    lines = "".join(f"  - {flag}\n" for flag in flags)
    return f"kind: flags\nversion: 1\nservice: concierge\nflags:\n{lines}".encode()


def flag(**over: object) -> str:
    fields: dict[str, object] = {
        "name": "f", "owner": "o", "purpose": "p", "deadline": "2027-01-31", "auto_off_s": 60, "kind": "latency",
        "params": {"delay_s": 1},
    }  # fmt: skip
    fields |= over
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}).decode()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((flag(deadline=None),), "/flags/0/deadline: found nothing"),  # no flag stays on by being forgotten
        ((flag(auto_off_s=None),), "/flags/0/auto_off_s: found nothing"),
        ((flag(deadline="2027-02-30"),), "found '2027-02-30', wanted a date of the calendar"),
        ((flag(owner=""),), "/flags/0/owner"),
        ((flag(kind="typo"),), "/flags/0/kind"),
        ((flag(params={}),), "/flags/0/params/delay_s: found nothing"),
        ((flag(params={"delay_s": "1"}),), 'found text "1", wanted a number'),
        ((flag(params={"delay_s": 1, "delay": 2}),), "/flags/0/params/delay"),
        ((flag(params={"delay_s": 0}),), "wanted a number > 0"),
        ((flag(share=0.5, first=1),), "several of share, first, every"),
        ((flag(share=0),), "/flags/0/share"),
        ((flag(kind="kill", params={}, share=0.5),), "a kill that meets some calls"),
        ((flag(kind="error", params={"error": "SystemExit"}),), "error is one of"),
        ((flag(kind="error", params={"status": 200}),), "/flags/0/params/status"),
        ((flag(kind="wrong-answer", params={}),), "either value or change"),
        (
            (flag(kind="wrong-answer", params={"change": {"at": "/a", "multiply": 1}}),),
            "a change that changes something",
        ),
        ((flag(kind="wrong-answer", params={"change": {"at": "a", "multiply": 2}}),), "/flags/0/params/change/at"),
        ((flag(kind="wrong-answer", params={"value": "x" * 5_000}),), "over 2,048 bytes"),
        ((flag(name="toolTimeout"), flag(name="tool_timeout")), "which reads as 'toolTimeout' does"),
        ((flag(name="a b"),), "/flags/0/name"),
        ((), "/flags"),
    ],
)
def test_a_registry_that_could_mean_nothing_or_two_things_is_refused(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(Problem) as problem:
        load_registry(text(*flags) if flags else text() + b"  []\n", place="flags.yaml")
    assert said in str(problem.value)


def test_a_kill_needs_neither_deadline_nor_auto_off() -> None:
    read = registry(
        "{name: refund, owner: payments, purpose: ends refunds, kind: kill, params: {tools: [issue_refund]}}"
    )
    assert read.capabilities == ("refund",)


def test_a_deadline_is_the_end_of_its_day() -> None:
    assert last_instant_ns("1970-01-01") == DAY_NS
    assert last_instant_ns("2027-13-01") is None
    assert last_instant_ns("20270101") is None


def test_parameters_of_a_plan_stand_on_top_of_the_registrys() -> None:
    (read,) = registry(flag(kind="error", params={"error": "OSError", "status": 503})).flags
    assert plain(Switched(flag="f", params={"status": 500}).shape(read, place="x")) == {
        "error": "OSError",
        "status": 500,
    }
    (wrong,) = registry(flag(kind="wrong-answer", params={"value": 1})).flags
    told = plain(Switched(flag="f", params={"change": {"at": "/a", "put": None}}).shape(wrong, place="x"))
    assert told == {"change": {"at": "/a", "put": None}}


def section(*on: Switched, **more: object) -> FlagsSection:
    return msgspec.structs.replace(FlagsSection(on=on or (Switched(flag="toolTimeout"),)), **more)


@pytest.mark.parametrize(
    ("on", "pointer", "found"),
    [
        ((Switched(flag="tooltimeout"),), "/flags/on/0/flag", "flag 'tooltimeout'. Did you mean 'toolTimeout'?"),
        ((Switched(flag="toolTimeout"), Switched(flag="toolTimeout")), "/flags/on/1/flag", "toolTimeout twice"),
        ((Switched(flag="toolTimeout", share=0.1, every=2),), "/flags/on/0", "several of share, first, every"),
        ((Switched(flag="toolTimeout", params={"max": 3}),), "/flags/on/0/params/max", "a field that does not exist"),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_told_where(on: tuple[Switched, ...], pointer: str, found: str) -> None:
    wrong = list(what_is_wrong(section(*on), registry(TIMEOUT), fault_s=60, now_wall_ns=0))
    assert [one.pointer for one in wrong] == [pointer]
    assert found in wrong[0].found or found == "a field that does not exist"


def test_a_flag_that_goes_off_within_the_window_is_told_before_the_run() -> None:
    (wrong,) = what_is_wrong(section(), registry(TIMEOUT), fault_s=301, now_wall_ns=0)
    assert "goes off after 300 s" in wrong.found
    assert not list(what_is_wrong(section(), registry(TIMEOUT), fault_s=300, now_wall_ns=0))


def test_a_flag_past_its_deadline_may_not_be_planned() -> None:
    last = last_instant_ns("2027-01-31")
    assert last is not None
    assert not list(what_is_wrong(section(), registry(TIMEOUT), fault_s=1, now_wall_ns=last - 1))
    (wrong,) = what_is_wrong(section(), registry(TIMEOUT), fault_s=1, now_wall_ns=last)
    assert "has passed" in wrong.found


@pytest.mark.parametrize(
    ("on", "attempts", "share"),
    [
        (Switched(flag="toolTimeout"), 3, 0.0),  # as the article has it: no attempt of any call recovers
        (Switched(flag="toolTimeout", share=1.0), 3, 0.0),
        (Switched(flag="toolTimeout", share=0.5), 3, 0.875),
        (Switched(flag="toolTimeout", first=1), 2, 1.0),
        (Switched(flag="toolTimeout", first=3), 3, 0.0),
        (Switched(flag="toolTimeout", every=1), 9, 0.0),
        (Switched(flag="toolTimeout", every=4), 1, 0.75),
    ],
)
def test_what_can_recover_is_known_before_the_run(on: Switched, attempts: int, share: float) -> None:
    assert expected_success(registry(TIMEOUT), (on,), attempts) == pytest.approx(share)


def test_latency_fails_no_call() -> None:
    assert expected_success(registry(flag()), (Switched(flag="f"),), 1) == 1.0


def test_first_counts_by_mission() -> None:
    hits = Hits(Aim(first=2), "s")
    assert [hits.hit("a") for _ in range(4)] == [True, True, False, False]
    assert [hits.hit("b") for _ in range(3)] == [True, True, False]


def test_every_counts_all_calls() -> None:
    hits = Hits(Aim(every=3), "s")
    assert [hits.hit(str(n)) for n in range(7)] == [False, False, True, False, False, True, False]


def test_a_share_is_a_lot_that_a_seed_draws_again() -> None:
    one, again, other = (Hits(Aim(share=0.25), seed) for seed in ("s", "s", "t"))
    drawn = [one.hit() for _ in range(4_000)]
    assert drawn == [again.hit() for _ in range(4_000)]
    assert drawn != [other.hit() for _ in range(4_000)]
    assert 850 < sum(drawn) < 1_150  # 1,000 and more than five standard deviations on each side


def test_missions_that_are_counted_have_a_bound() -> None:
    hits = Hits(Aim(first=1), "s")
    for n in range(70_000):
        hits.hit(str(n))
    assert hits.hit("69999") is False
    assert hits.hit("0") is True  # forgotten, so it is met again
