import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster import strict
from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.guards import Decision, names
from drillmaster.guards.quota import Quota
from drillmaster.intake.guards_files import Kind, _quick, check_pin, decode_guards, kind_of, read_facts, read_guards

NOW_NS = parse_rfc3339("2026-11-29T15:30:00Z") or 0
QUOTA = {
    "guard": "quota",
    "partner": "ledger",
    "identity": "acct-7",
    "window_ms": 60_000,
    "max_per_window": 30,
    "burst": 5,
}
RETRY = {
    "guard": "retry", "max_calls": 3, "deadline_ms": 30_000, "base_ms": 200, "cap_ms": 5_000, "budget_tokens": 10, "refund": 0.1,
}  # fmt: skip  # a row
GOOD: dict[str, Any] = {
    "kind": "guards",
    "version": 1,
    "source": "contract-2026-ledger",
    "owner": "payments-oncall",
    "reviewers": ["platform"],
    "review_by": "2027-02-28",
    "guards": [QUOTA],
}


def decoded(value: object) -> Any:
    return decode_guards(msgspec.json.encode(value), place="guards.json", fmt="json")


def test_an_entry_is_called_by_its_guard_or_by_its_own_name() -> None:
    guards = decoded({**GOOD, "guards": [QUOTA, {**QUOTA, "name": "ledger-b", "identity": "acct-8"}]})
    assert list(guards.entries) == ["quota", "ledger-b"]
    assert isinstance(guards.entries["ledger-b"], Quota)
    assert guards.entries["ledger-b"].identity == "acct-8"
    assert guards.needs_store == ("quota", "ledger-b")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda f: f.pop("owner"), "/owner"),
        (lambda f: f.update(reviewers=[]), "/reviewers"),
        (lambda f: f.update(guards=[]), "/guards"),
        (lambda f: f.update(model="gpt"), "/model"),
        (lambda f: f.update(version=True), "/version"),
        (lambda f: f.update(guards=[{**QUOTA, "guard": "qouta"}]), "/guards/0/guard"),
        (lambda f: f.update(guards=[{k: v for k, v in QUOTA.items() if k != "guard"}]), "/guards/0/guard"),
        (lambda f: f.update(guards=[{**QUOTA, "burst": "5"}]), "/guards/0/burst"),
        (lambda f: f.update(guards=[{**QUOTA, "burst": True}]), "/guards/0/burst"),
        (lambda f: f.update(guards=[{**QUOTA, "burst": 31}]), "/guards/0"),  # over the cap
        (lambda f: f.update(guards=[{k: v for k, v in QUOTA.items() if k != "burst"}]), "/guards/0/burst"),
        (lambda f: f.update(guards=[{**QUOTA, "prompt": "be kind"}]), "/guards/0/prompt"),
        (lambda f: f.update(guards=[QUOTA, QUOTA]), "/guards/1/name"),
        (lambda f: f.update(guards=[{**QUOTA, "name": "retry"}]), "/guards/0/name"),  # another guard's
        (lambda f: f.update(guards=[{**QUOTA, "name": "Ledger day"}]), "/guards/0/name"),
        (lambda f: f.update(guards=[{**QUOTA, "name": 7}]), "/guards/0/name"),
    ],
)
def test_a_file_that_is_none_says_where(change: Callable[[dict[str, Any]], object], where: str) -> None:
    file = {**GOOD}
    change(file)
    with pytest.raises(Problem) as told:
        decoded(file)
    assert told.value.place == f"guards.json: {where}" or told.value.place.endswith(where)


def test_all_blanks_are_named_at_once() -> None:
    with pytest.raises(Problem, match="3 blanks: /owner, /guards/0/window_ms, /guards/0/burst"):
        decoded({**GOOD, "owner": None, "guards": [{**QUOTA, "burst": None, "window_ms": None}]})


@pytest.mark.parametrize(
    "change", [{"owner": " "}, {"source": "chat of tuesday"}, {"reviewers": ["", "b"]}, {"review_by": "2026-11-28"}]
)
def test_a_pin_that_pins_nothing_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    guards = decoded({**GOOD, **change})
    with pytest.raises(Refused):
        check_pin(guards, now_ns=NOW_NS)
    path = tmp_path / "guards.json"
    path.write_bytes(msgspec.json.encode({**GOOD, **change}))
    with pytest.raises(Refused):
        read_guards(path, now_ns=NOW_NS)


def test_the_digest_is_of_the_limits_and_not_of_their_layout() -> None:
    other = dict(reversed(GOOD.items()))
    assert decoded(GOOD).digest == decoded(other).digest != decoded({**GOOD, "guards": [{**QUOTA, "burst": 4}]}).digest


@pytest.mark.parametrize("tag", names())
def test_any_guard_of_the_catalogue_says_what_it_is_made_of(tag: str) -> None:
    kind = kind_of(tag)
    assert msgspec.json.schema(kind.facts)
    assert kind.reasons
    fields = {field.name for field in msgspec.structs.fields(kind.guard)}
    assert set(kind.limits_of) <= set(kind.reasons)
    assert all(set(limits) <= fields for limits in kind.limits_of.values())
    if kind.guard.LAW is not None:
        assert kind.state is not None


@pytest.mark.parametrize("tag", names())
def test_the_facts_of_any_guard_are_closed_all_the_way_down(tag: str) -> None:
    def closed(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            assert hint.__struct_config__.forbid_unknown_fields, hint
            for field in msgspec.structs.fields(hint):
                closed(field.type)
        assert hint not in (Any, object, bytes, bytearray, memoryview, msgspec.Raw, dict)
        for inner in typing.get_args(hint):
            closed(inner)

    closed(kind_of(tag).facts)


def test_a_guard_that_answers_more_than_others_says_so() -> None:
    assert kind_of("quota").decision is Decision
    assert {"fencing_token", "lasts_ms"} <= set(kind_of("lease").decision.__struct_fields__)


FACTS = b'{"source":"pinned-map","protocol":"http","method":"GET","code":503,"attempt":1,"elapsed_ms":5}'


def test_facts_are_read_into_the_guards_own_type() -> None:
    kind = kind_of("retry")
    assert read_facts(FACTS, kind, place="facts") == kind.facts(
        source="pinned-map", protocol="http", method="GET", code=503, attempt=1, elapsed_ms=5
    )


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (FACTS.replace(b"1,", b"true,"), "/attempt"),
        (FACTS.replace(b"1,", b"1.0,"), "/attempt"),
        (FACTS.replace(b"1,", b'"1",'), "/attempt"),
        (FACTS.replace(b"503", b"NaN"), "/code"),
        (FACTS.replace(b"503", b"1e999"), "/code"),
        (FACTS.replace(b'"elapsed_ms"', b'"attempt"'), "/attempt"),  # twice
        (FACTS.replace(b"http", b"smtp"), "/protocol"),
        (FACTS[:-1] + b',"body":"Dear Sir"}', "/body"),
        (FACTS.replace(b',"elapsed_ms":5', b""), "/elapsed_ms"),
        (b"[]", ""),
        (b"", ""),
        (b"null", ""),
        (FACTS + b" {}", ""),
        (b"\xff\xfe" + FACTS, ""),
        (b" " * (1 << 16) + FACTS, ""),
        (b'{"a":' * 3000, ""),
    ],
)
def test_facts_that_are_none_say_where(data: bytes, where: str) -> None:
    with pytest.raises(Problem) as told:
        read_facts(data, kind_of("retry"), place="facts")
    assert told.value.place.startswith("facts")
    assert where in told.value.place


class Flat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    a: int
    b: float | None = None
    c: str = ""
    d: bool = False
    e: tuple[str, ...] = ()
    f: Literal["x", "y"] = "x"


FLAT = Kind(tag="flat", guard=Quota, facts=Flat, state=None, decision=Decision, reasons={}, limits_of={})
_NUMBERS = (
    "1", "1.0", "1.5", "-0", "01", "1e2", "1E400", "1e-999", "9007199254740993", "123456789012345", "99999999999999999999", "NaN",
    "Infinity", "true", "null", '"1"',
)  # fmt: skip  # words
_TEXTS = ('"x"', '"a"', '"\\u0061"', '"\\ud800"', '"\x7f"', '"\u202e"', '"\x01"', '"x","a":2,"c":"z"', '"b"')
_NAMES = ('"a"', '"b"', '"c"', '"d"', '"e"', '"f"', '"g"', '"\\u0061"', '"A"', '""')
_pairs = st.lists(
    st.tuples(
        st.sampled_from(_NAMES),
        st.one_of(
            st.sampled_from(_NUMBERS),
            st.sampled_from(_TEXTS),
            st.sampled_from(("[]", '["x"]', "[1]", "{}", '["a","a"]')),
        ),
    ),
    max_size=7,
)


@given(pairs=_pairs, extra=st.sampled_from(("", ",", " x", "\n", "\x00", "}")), cut=st.integers(0, 3))
@example(pairs=[('"a"', "1"), ('"a"', "2")], extra="", cut=0)
@example(pairs=[('"a"', "1"), ('"\\u0061"', "2")], extra="", cut=0)
@example(pairs=[('"a"', "9007199254740993")], extra="", cut=0)
def test_the_quick_way_of_reading_facts_takes_what_the_strict_one_takes(
    pairs: list[tuple[str, str]], extra: str, cut: int
) -> None:
    text = "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}" + extra
    data = text.encode("utf-8", "surrogatepass")[cut:]
    try:
        wanted: object = strict.load_as(data, Flat, place="facts", fmt="json")
    except Problem as problem:
        wanted = str(problem)
    try:
        found: object = read_facts(data, FLAT, place="facts")
    except Problem as problem:
        found = str(problem)
    assert type(found) is type(wanted)
    if isinstance(found, Flat):
        assert found == wanted


def test_facts_of_flat_guards_are_read_the_quick_way_and_others_are_not() -> None:
    assert _quick(kind_of("retry").facts) is not None
    assert _quick(kind_of("quota").facts) is not None

    class Nested(msgspec.Struct):
        inner: Flat

    assert _quick(Nested) is None
    assert _quick(Flat | None) is None


def test_a_decision_has_what_the_recorder_and_the_command_line_read() -> None:
    said = msgspec.to_builtins(Decision(allowed=False, reason="x"))
    assert {"allowed", "reason", "wait_ms", "left"} <= set(said)
