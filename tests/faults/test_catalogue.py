"""The catalogue of faults: by name, by file, one import an entry; and the scripts that ship, played by hand."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_args

import msgspec
import pytest

from drillmaster import faults
from drillmaster.dialects import load as load_dialect
from drillmaster.errors import Problem
from drillmaster.faults import Close, Cx, Data, End, Fault, Head, Lifted, Lost, Read, Send, Wait
from drillmaster.http1 import HeadReader
from tests.faults.stage import Stage

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"


def context() -> Cx:
    return Cx(
        request=HeadReader().request(HEAD),
        conn=1,
        nth=1,
        dialect=load_dialect("openai_chat"),
        make_rng=lambda: random.Random(1),
        now_ns=lambda: 0,
        cell=lambda key: {},
    )


def test_every_name_loads_an_entry_that_says_what_it_is() -> None:
    assert set(faults.names()) >= {"reset", "503", "hang"}
    for tag in faults.names():
        kind = faults.load(tag)
        assert kind.__struct_config__.tag == tag
        for word in ("Breaks:", "Looks like:", "Cannot show:"):
            assert word in (kind.__doc__ or ""), f"{tag} does not say {word}"


@pytest.mark.parametrize("tag", faults.names())
def test_an_entry_says_what_fails_and_what_a_plain_client_is_left_with(tag: str) -> None:
    kind = faults.load(tag)
    assert kind.group in set(get_args(faults.Group)) - {"other"}
    assert kind.seen
    assert set(kind.seen) <= set(get_args(faults.Seen))
    assert set(kind.needs) <= set(get_args(faults.Need))


@pytest.mark.parametrize("tag", faults.names())
def test_a_parameter_says_what_it_is_and_one_that_must_be_given_has_an_example(tag: str) -> None:
    for field in msgspec.structs.fields(faults.load(tag)):
        said = [found for found in _metas(field.type) if found.description]
        assert said, f"{tag}: {field.name} has no description"
        if field.required:
            assert any(found.examples for found in said), f"{tag}: {field.name} has no example"


def _metas(kind: Any) -> Iterator[msgspec.Meta]:
    yield from (found for found in getattr(kind, "__metadata__", ()) if isinstance(found, msgspec.Meta))
    for part in get_args(kind):
        yield from _metas(part)


def test_listing_imports_no_entry_and_loading_imports_one() -> None:
    code = (
        "import sys; from drillmaster import faults; faults.names();"
        "have = lambda: sorted(m for m in sys.modules if m.startswith('drillmaster.faults.') and '._' not in m);"
        "assert have() == [], have(); faults.load('hang'); assert have() == ['drillmaster.faults.hang'], have();"
        "assert not {'asyncio', 'socket', 'ssl'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "tag", ["", "rest", "RESET", "status_503", "status-503", "../reset", "__init__", "5031", "reset "]
)
def test_a_tag_that_is_not_in_the_catalogue_is_a_problem_with_a_remedy(tag: str) -> None:
    with pytest.raises(Problem) as caught:
        faults.load(tag)
    assert "did you mean" in caught.value.remedy or "drillmaster fault list" in caught.value.remedy
    assert len(str(caught.value)) < 120  # what may have been meant is found beside the rest of the catalogue by nobody


def test_a_near_miss_is_named() -> None:
    with pytest.raises(Problem, match="did you mean hang"):
        faults.load("hnag")


@pytest.mark.parametrize(
    ("tag", "params", "found", "wanted"),
    [
        ("rate-limit", {}, "no retry_after_s", "seconds to ask for, or form: none"),
        ("rate-limit", {"form": "none", "retry_after_s": 3}, "retry_after_s beside form: none", "one of the two"),
        ("cut-body", {}, "no after_bytes", "after_bytes, which has no default"),
        ("first-byte-delay", {"delay_ms": 5, "jitter_ms": 6}, "jitter_ms 6", "at most delay_ms, 5"),
    ],
)
def test_a_parameter_that_is_missing_or_goes_with_no_other_is_named_with_what_is_wanted(
    tag: str, params: dict[str, Any], found: str, wanted: str
) -> None:
    with pytest.raises(Problem) as caught:
        faults.make(tag, params)
    assert caught.value.found == found
    assert caught.value.wanted.startswith(wanted)
    assert caught.value.remedy == f"see: drillmaster fault show {tag}"


@pytest.mark.parametrize(
    ("tag", "params", "found", "remedy"),
    [
        ("status", {"status": 429, "condition": "rate-tokns"}, "condition='rate-tokns'", "did you mean rate-tokens?"),
        ("error-event", {"condition": "overlaoded"}, "condition='overlaoded'", "did you mean overloaded?"),
        ("error-event", {"shape": "rate"}, "shape='rate'", "see docs/reference/dialects.md, or leave it out"),
        ("error-event", {"shape": "falt"}, "shape='falt'", "did you mean flat?"),
        ("error-in-200", {"condition": "x"}, "condition='x'", "see docs/reference/dialects.md, or leave it out"),
    ],
)
def test_a_word_that_no_api_has_is_a_slip_of_the_pen(tag: str, params: dict[str, Any], found: str, remedy: str) -> None:
    with pytest.raises(Problem) as caught:
        faults.make(tag, params)
    assert (caught.value.found, caught.value.remedy) == (found, remedy)


def test_a_word_that_some_api_has_may_be_asked_of_all() -> None:
    assert faults.make("error-event", {"shape": "x-groq-error"}) and faults.make("error-event", {"shape": "failed"})
    assert faults.make("status", {"status": 402, "condition": "money-deepseek"})


def test_a_value_that_cannot_be_is_found_and_what_can_is_wanted() -> None:
    with pytest.raises(Problem) as caught:
        faults.make("stall", {"after_events": -1})
    assert (caught.value.found, caught.value.wanted) == ("after_events=-1", "after_events as `int` >= 0")
    with pytest.raises(Problem) as caught:
        faults.make("cut-body", {"after_bytes": 1, "how": "slow"})
    assert (caught.value.found, caught.value.wanted) == ("how='slow'", "how as one of fin, rst")


@pytest.mark.parametrize("params", [{"x": 1}, {"type": "hang", "after_bytes": 1}])
def test_an_unknown_parameter_is_a_problem(params: dict[str, Any]) -> None:
    with pytest.raises(Problem, match="its parameters: none"):
        faults.make("reset", params)


REQUEST = b'{"model":"m","messages":[],"max_tokens":9,"tools":[{"type":"function","function":{"name":"f"}}]}'


@pytest.mark.parametrize("tag", [tag for tag in faults.names() if faults.load(tag).scope == "exchange"])
def test_a_fault_that_hands_nothing_on_never_returns_without_a_word(tag: str) -> None:
    kind = faults.load(tag)
    params = {
        name: meta.examples[0]
        for name, meta in (
            (field.name, next(_metas(field.type))) for field in msgspec.structs.fields(kind) if field.required
        )
        if meta.examples
    }
    if "retry_after_s" in kind.__struct_fields__:
        params["retry_after_s"] = 1
    played = Stage().play(faults.make(tag, params), body=REQUEST)
    spoke = played.end == "held" or bool({"Send", "Pass", "Close"} & set(played.kinds()))
    if not kind.hands_on:
        assert spoke or "stream" in kind.needs
    elif spoke:  # it may, by what it needs, by what it has seen, or by how the answer is coded
        assert kind.needs or tag in ("bad-gzip", "key-expired", "stale-keep-alive")


def play(fault: Fault, answers: Callable[[object], object]) -> list[object]:
    """The actions of a script, given an answer to each, until it ends or closes."""
    script = fault.script(context())
    done: list[object] = []
    value: object = None
    while len(done) < 50:
        try:
            action = script.throw(value) if isinstance(value, Lifted) else script.send(value)
        except StopIteration:
            return done
        done.append(action)
        if isinstance(action, Close):
            return done
        value = answers(action)
    return done


def test_reset_reads_nothing_and_resets() -> None:
    assert play(faults.make("reset"), lambda action: None) == [Close("rst")]


def test_503_reads_to_the_end_before_it_sends_a_byte() -> None:
    events = iter([Data(b"12"), Data(b"345"), End()])
    done = play(faults.make("503"), lambda action: next(events) if isinstance(action, Read) else None)
    assert [type(action) for action in done] == [Read, Read, Read, Send, Send, Send]
    head, data, end = (action.part for action in done[3:] if isinstance(action, Send))
    assert isinstance(head, Head)
    assert isinstance(data, Data)
    assert (head.status, dict(head.headers)["content-length"], end) == (503, str(len(data.body)), End())


def test_503_says_nothing_to_a_request_that_broke_off() -> None:
    assert play(faults.make("503"), lambda action: Lost("cut")) == [Read("client")]


def test_hang_reads_to_the_end_and_waits_through_a_lift() -> None:
    answers = iter([Data(b"12345"), End(), None, Lifted(), None])
    done = play(faults.make("hang"), lambda action: next(answers, None))
    assert done[:6] == [Read("client"), Read("client"), Wait(), Wait(), Wait(), Wait()]
