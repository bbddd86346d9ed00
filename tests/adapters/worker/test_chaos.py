"""The decorator on every kind of function, under flags of the environment: no server, no socket."""

import asyncio
import gc
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from drillmaster.adapters.worker import chaos as chaos_module
from drillmaster.adapters.worker._chaos_shapes import Gates
from drillmaster.adapters.worker._chaos_wrong import NoPlace, changed
from drillmaster.adapters.worker.chaos import Forced, Killed, chaos
from drillmaster.errors import Problem

REGISTRY = """
kind: flags
version: 1
service: concierge
flags:
  - {name: toolTimeout, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: timeout, params: {max_s: 0.001}}
  - {name: toolError, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: error,
     params: {error: ConnectionError, status: 503, message: no route}}
  - {name: slow, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: latency, params: {delay_s: 0.001}}
  - {name: tenfold, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: wrong-answer,
     params: {change: {at: /amount, multiply: 10}}}
  - {name: invented, owner: o, purpose: p, deadline: 2099-01-31, auto_off_s: 60, kind: wrong-answer, params: {value: {amount: 7}}}
  - {name: old, owner: o, purpose: p, deadline: 2020-01-31, auto_off_s: 60, kind: error}
  - {name: refund, owner: o, purpose: p, kind: kill}
"""


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has not begun, with no functions but the test's own."""
    monkeypatch.delenv("CHAOS_URL", raising=False)
    gates, chaos_module._module.gates = chaos_module._module.gates, Gates()
    yield
    chaos_module.stop()
    chaos_module._module.gates = gates


@pytest.fixture
def toggle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "flags.yaml"
    path.write_text(REGISTRY)
    monkeypatch.setenv("DRILLMASTER_FLAGS", str(path))

    def put(**toggles: str) -> None:
        for name, value in toggles.items():
            monkeypatch.setenv(f"DRILLMASTER_FLAG_{name}", value)

    return put


ALL = ("toolTimeout", "toolError", "slow", "tenfold", "invented")


def tool(*flags: str, **more: Any) -> Any:
    calls: list[float] = []

    @chaos(*(flags or ALL), **more)
    def issue(amount: float, /, currency: str = "EUR", *rest: int, note: str = "n", **fields: int) -> dict[str, Any]:
        calls.append(amount)
        return {"amount": amount, "currency": currency, "rest": rest, "note": note, **fields}

    issue.calls = calls  # type: ignore[attr-defined]  # for the test to look at
    return issue


def test_without_a_flag_a_call_is_what_it_was() -> None:
    issue = tool(capability="refund")
    told = {"amount": 5, "currency": "USD", "rest": (1, 2), "note": "m", "more": 3}
    assert issue(5, "USD", 1, 2, note="m", more=3) == told
    assert issue(5) == {"amount": 5, "currency": "EUR", "rest": (), "note": "n"}
    with pytest.raises(TypeError):
        issue()


def test_a_decorated_function_stays_what_it_is(toggle: Any) -> None:
    """B15.22: on a tool that is no coroutine the article's decorator makes one; on others it fails with the first call."""

    async def later() -> int:
        return 1

    def each() -> Iterator[int]:
        yield 1

    async def each_later() -> AsyncIterator[int]:
        yield 1

    class Tool:
        async def __call__(self) -> int:
            return 1

    for capability in ("", "refund"):
        wrap = chaos("toolError", capability=capability)
        assert inspect.iscoroutinefunction(wrap(later))
        assert inspect.isgeneratorfunction(wrap(each))
        assert inspect.isasyncgenfunction(wrap(each_later))
        assert inspect.iscoroutinefunction(wrap(partial(later)))
        assert inspect.iscoroutinefunction(wrap(Tool()))
        assert inspect.signature(wrap(each)) == inspect.signature(each)
        assert asyncio.run(wrap(later)()) == 1
        assert list(wrap(each)()) == [1]
        assert wrap(len)([1, 2]) == 2


def test_methods_of_all_kinds_can_be_decorated() -> None:
    class Desk:
        @chaos("toolError", capability="refund")
        def own(self, n: int) -> int:
            return n

        @chaos("toolError")
        @classmethod
        def of_class(cls, n: int) -> int:
            return n

        @chaos("toolError")
        @staticmethod
        def of_none(n: int) -> int:
            return n

    assert (Desk().own(1), Desk.of_class(2), Desk().of_none(3)) == (1, 2, 3)


@pytest.mark.parametrize("given", [(lambda n: n,), (), ("",), ("a b",), (3,), ("x" * 65,)])
def test_a_decorator_without_a_name_fails_at_import(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="@chaos found"):
        chaos(*given)


@pytest.mark.parametrize("name", ["force_halucination", "tooltimeout", "TOOLERROR"])
def test_an_unknown_name_is_refused_at_start_up(toggle: Any, name: str) -> None:
    toggle(toolError="off")
    _kept = tool(name)
    with pytest.raises(Problem, match=r"@chaos of .*issue: found flag"):
        chaos_module.start()


def test_a_name_nearby_is_named(toggle: Any) -> None:
    toggle(toolError="off")
    _kept = tool("tooltimeout")
    with pytest.raises(Problem, match=r"Did you mean 'toolTimeout'\?"):
        chaos_module.start()


def test_a_function_that_is_decorated_after_the_start_is_looked_at_too(toggle: Any) -> None:
    toggle(toolError="on")
    chaos_module.start()
    with pytest.raises(Problem, match="found flag 'nosuch'"):
        tool("nosuch")
    with pytest.raises(ConnectionError):
        tool("toolError")(1)


def test_a_capability_is_no_flag_and_a_flag_no_capability(toggle: Any) -> None:
    toggle(toolError="off")
    _kept = tool("refund")
    with pytest.raises(Problem, match='capability="refund"'):
        chaos_module.start()
    chaos_module._module.gates = Gates()
    _kept = tool("toolError", capability="toolError")
    with pytest.raises(Problem, match="capability 'toolError'"):
        chaos_module.start()


@pytest.mark.parametrize("text", ["on", "true", "1"])
def test_a_toggle_that_says_on_is_on(toggle: Any, text: str) -> None:
    toggle(toolError=text)
    with pytest.raises(ConnectionError, match="no route") as error:
        tool()(1)
    assert (error.value.status, error.value.drill_flag, error.value.drill_result) == (503, "toolError", "error")  # type: ignore[attr-defined]  # ours


@pytest.mark.parametrize("text", ["off", "false", "0"])
def test_a_toggle_that_says_off_is_off(toggle: Any, text: str) -> None:
    """B15.20: as text each of them is true."""
    toggle(toolError=text, refund=text)
    assert tool(capability="refund")(1)["amount"] == 1


@pytest.mark.parametrize(
    "text", ["", "yes", "ON", "On", "False", " on", "off ", "2", "none", "share=0", "share=2", "first=0", "every=x"]
)
def test_a_toggle_that_says_something_else_is_refused(toggle: Any, text: str) -> None:
    toggle(toolError=text)
    tool()
    with pytest.raises(Problem, match="DRILLMASTER_FLAG_toolError: found"):
        chaos_module.start()


def test_a_toggle_of_no_flag_is_refused(toggle: Any) -> None:
    toggle(toolerror="on")
    with pytest.raises(Problem, match="Did you mean 'toolError'"):
        chaos_module.start()


def test_a_toggle_past_its_flags_deadline_is_refused(toggle: Any) -> None:
    toggle(old="on")
    with pytest.raises(Problem, match="deadline 2020-01-31 has passed"):
        chaos_module.start()


def test_a_toggle_without_a_registry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRILLMASTER_FLAG_toolError", "on")
    with pytest.raises(Problem, match="wanted the registry"):
        chaos_module.start()


def test_toggles_beside_a_server_are_refused(toggle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    toggle(toolError="on")
    monkeypatch.setenv("CHAOS_URL", "http://127.0.0.1:1")
    with pytest.raises(Problem, match="one place"):
        chaos_module.start()


def test_the_first_of_each_mission_is_met_and_its_retry_recovers(toggle: Any) -> None:
    toggle(toolError="first=1")
    issue = tool()
    for name in ("m1", "m2"):
        token = chaos_module.mission.set(name)
        with pytest.raises(ConnectionError):
            issue(1)
        assert issue(1)["amount"] == 1
        chaos_module.mission.reset(token)


def test_a_forced_timeout_comes_at_the_callers_own_limit(toggle: Any) -> None:
    toggle(toolTimeout="on")
    with pytest.raises(TimeoutError, match="forced timeout toolTimeout") as error:
        tool(limit_s=0.0005)(1)
    assert error.value.drill_result == "timeout"  # type: ignore[attr-defined]  # ours


def test_the_error_may_be_the_tools_own_clients(toggle: Any) -> None:
    class Own(Exception):
        pass

    def make(forced: Forced) -> BaseException | None:
        return Own(forced.status) if forced.kind == "error" else None

    toggle(toolError="on", refund="off")
    with pytest.raises(Own, match="503"):
        tool(raises=make)(1)


def test_latency_ends_in_the_real_answer(toggle: Any) -> None:
    toggle(slow="on")
    assert tool()(4)["amount"] == 4


def test_a_wrong_answer_is_a_value_and_no_error(toggle: Any) -> None:
    """B15.17: the article's forced hallucination raises, and no wrong answer is ever made."""
    toggle(tenfold="on")
    issue = tool()
    assert issue(5)["amount"] == 50
    assert issue.calls == [5]


def test_an_answer_in_place_of_a_call_asks_no_tool(toggle: Any) -> None:
    toggle(invented="on")
    issue = tool()
    told = issue(5)
    assert told == {"amount": 7}
    told["amount"] = 0  # the caller's own
    assert issue(5) == {"amount": 7}
    assert issue.calls == []


def test_an_answer_without_the_place_is_missed_and_not_met(toggle: Any) -> None:
    toggle(tenfold="on")

    @chaos("tenfold")
    def other() -> str:
        return "no such thing"

    assert other() == "no such thing"
    state = chaos_module.held()
    assert state is not None
    assert (state.on["tenfold"].n, state.on["tenfold"].missed) == (0, 1)


@pytest.mark.parametrize("capability", ["", "refund"])
def test_coroutines_and_generators_meet_the_same(toggle: Any, capability: str) -> None:
    toggle(tenfold="on")
    wrap = chaos("tenfold", capability=capability)

    @wrap
    async def later(n: int) -> dict[str, int]:
        return {"amount": n}

    @wrap
    def each(n: int) -> Iterator[dict[str, int]]:
        yield {"amount": n}
        yield {"amount": n + 1}

    @wrap
    async def each_later(n: int) -> AsyncIterator[dict[str, int]]:
        yield {"amount": n}

    async def gathered() -> list[dict[str, int]]:
        return [one async for one in each_later(3)]

    assert asyncio.run(later(1)) == {"amount": 10}
    assert list(each(2)) == [{"amount": 20}, {"amount": 30}]
    assert asyncio.run(gathered()) == [{"amount": 30}]


@pytest.mark.parametrize("on", ["off", "on"])
@pytest.mark.parametrize("capability", ["", "refund"])
def test_what_is_sent_and_thrown_into_a_generator_arrives(toggle: Any, on: str, capability: str) -> None:
    toggle(tenfold=on)
    heard: list[object] = []

    @chaos("tenfold", capability=capability)
    def each() -> Iterator[object]:
        try:
            heard.append((yield {"amount": 1}))
            yield 2
        except KeyError:
            heard.append("thrown")
            yield 3
        finally:
            heard.append("closed")
        return "end"  # what `yield from` gives

    def outer() -> Iterator[object]:
        heard.append((yield from each()))

    one: Any = outer()
    next(one)
    assert one.send("word") == 2
    assert one.throw(KeyError("k")) == 3
    assert list(one) == []
    assert heard == ["word", "thrown", "closed", "end"]
    two: Any = each()
    next(two)
    two.close()
    assert heard[-1] == "closed"


@pytest.mark.parametrize("on", ["off", "on"])
def test_what_is_sent_and_thrown_into_an_asynchronous_generator_arrives(toggle: Any, on: str) -> None:
    toggle(tenfold=on)
    heard: list[object] = []

    @chaos("tenfold", capability="refund")
    async def each() -> AsyncIterator[object]:
        try:
            heard.append((yield {"amount": 1}))
            yield 2
        except KeyError:
            heard.append("thrown")
            yield 3
        finally:
            heard.append("closed")

    async def drive() -> None:
        one: Any = each()
        await one.__anext__()
        assert await one.asend("word") == 2
        assert await one.athrow(KeyError("k")) == 3
        with pytest.raises(StopAsyncIteration):
            await one.__anext__()
        two: Any = each()
        await two.__anext__()
        await two.aclose()

    asyncio.run(drive())
    assert heard == ["word", "thrown", "closed", "closed"]


def test_an_asynchronous_generator_that_no_flag_meets_is_the_functions_own(toggle: Any) -> None:
    """So each of its items costs what it costs without the decorator."""

    async def each(n: int) -> AsyncIterator[int]:
        yield n

    wrapped: Any = chaos("toolError")(each)
    own = each.__code__  # type: ignore[attr-defined]  # a function's
    toggle(toolError="off")
    chaos_module.start()
    before: Any = wrapped(1)
    assert (inspect.isasyncgen(before), before.ag_code is own) == (True, True)
    chaos_module.stop()
    toggle(toolError="on")
    chaos_module.start()
    met: Any = wrapped(1)
    assert (inspect.isasyncgen(met), met.ag_code is own) == (True, False)

    async def first(items: Any) -> int:
        return int(await items.__anext__())

    assert asyncio.run(first(before)) == 1  # called before the flag was on
    with pytest.raises(ConnectionError):
        asyncio.run(first(met))


def test_an_asynchronous_generator_is_looked_at_when_nothing_was_started(toggle: Any) -> None:
    toggle(toolError="on")

    @chaos("toolError")
    async def each() -> AsyncIterator[int]:
        yield 1

    async def first() -> int:
        return await each().__anext__()

    with pytest.raises(ConnectionError):
        asyncio.run(first())


def test_an_asynchronous_generator_ends_at_its_next_item_once_its_capability_is_killed(toggle: Any) -> None:
    toggle(refund="off")

    @chaos(capability="refund")
    async def each() -> AsyncIterator[int]:
        for n in range(3):
            yield n

    async def killed() -> list[int]:
        seen = []
        with pytest.raises(Killed):
            async for n in each():
                seen.append(n)
                assert next(iter(chaos_module._module.gates)).running() == 1
                chaos_module.stop()
                toggle(refund="on")
                chaos_module.start()
        return seen

    assert asyncio.run(killed()) == [0]
    assert next(iter(chaos_module._module.gates)).running() == 0


def test_a_killed_capability_refuses_every_kind_of_call(toggle: Any) -> None:
    toggle(refund="on")
    wrap = chaos(capability="refund")

    @wrap
    def plain() -> int:
        raise AssertionError("it ran")

    @wrap
    async def later() -> int:
        raise AssertionError("it ran")

    @wrap
    def each() -> Iterator[int]:
        yield 1

    with pytest.raises(Killed, match="refund is killed"):
        plain()
    with pytest.raises(Killed):
        asyncio.run(later())
    with pytest.raises(Killed):
        list(each())
    assert all(gate.running() == 0 for gate in chaos_module._module.gates)


def test_calls_under_way_are_counted_whatever_ends_them(toggle: Any) -> None:
    toggle(toolError="off")
    seen: list[int] = []

    @chaos(capability="refund")
    def plain(fail: bool) -> None:
        seen.append(next(iter(chaos_module._module.gates)).running())
        if fail:
            raise KeyError

    plain(fail=False)
    with pytest.raises(KeyError):
        plain(fail=True)
    assert seen == [1, 1]
    assert next(iter(chaos_module._module.gates)).running() == 0


class Point(NamedTuple):
    x: int


class Record(msgspec.Struct, frozen=True):
    amount: int


class Thing:
    def __init__(self) -> None:
        self.amount = 5


@pytest.mark.parametrize(
    ("answer", "change", "wrong"),
    [
        ({"a": {"b": [1, 2]}}, {"at": "/a/b/1", "multiply": 10.0}, {"a": {"b": [1, 20]}}),
        ({"a": 2}, {"at": "/a", "multiply": 0.5}, {"a": 1}),
        ({"a": 3}, {"at": "/a", "multiply": 0.5}, {"a": 1.5}),
        ({"a": Decimal("1.10")}, {"at": "/a", "multiply": 10.0}, {"a": Decimal("11.000")}),
        ({"a": 1}, {"at": "/a", "add": -3.0}, {"a": -2}),
        ({"a": 1}, {"at": "/a", "put": None}, {"a": None}),
        ({"a/b": 1, "c~d": 2}, {"at": "/a~1b", "put": 9}, {"a/b": 9, "c~d": 2}),
        (5, {"at": "", "multiply": 10.0}, 50),
        ("five", {"at": "", "put": "six"}, "six"),
        ('{"amount": 5}', {"at": "/amount", "multiply": 10.0}, '{"amount": 50}'),
        (Point(2), {"at": "/x", "multiply": 10.0}, Point(20)),
        (Record(2), {"at": "/amount", "multiply": 10.0}, Record(20)),
        ((1, 2), {"at": "/0", "add": 1.0}, (2, 2)),
    ],
)
def test_an_answer_is_changed_in_a_copy(answer: Any, change: dict[str, Any], wrong: Any) -> None:
    before = repr(answer)
    made = changed(answer, change)
    assert (made, type(made)) == (wrong, type(wrong))
    assert repr(answer) == before


def test_an_objects_attribute_is_changed_in_a_copy() -> None:
    thing = Thing()
    assert (changed(thing, {"at": "/amount", "multiply": 10.0}).amount, thing.amount) == (50, 5)


@pytest.mark.parametrize(
    ("answer", "change"),
    [
        ({}, {"at": "/a", "put": 1}),
        ({"a": True}, {"at": "/a", "multiply": 10.0}),  # no number
        ({"a": "5"}, {"at": "/a", "multiply": 10.0}),
        ([1], {"at": "/1", "put": 2}),
        ([1], {"at": "/-1", "put": 2}),
        ("no JSON", {"at": "/a", "put": 2}),
        (None, {"at": "/a", "put": 2}),
        (Thing(), {"at": "/__class__", "put": 2}),
    ],
)
def test_where_there_is_no_such_place_nothing_is_changed(answer: Any, change: dict[str, Any]) -> None:
    with pytest.raises(NoPlace):
        changed(answer, change)


def test_importing_it_loads_no_event_loop_and_no_client() -> None:
    heavy = ("asyncio", "http.client", "msgspec", "ssl")
    code = f"import sys, drillmaster.adapters.worker.chaos; print([m for m in {heavy} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "[]"


def test_a_function_that_is_gone_is_looked_after_no_more() -> None:
    for _ in range(100):
        chaos("toolError")(lambda: None)
    gc.collect()
    assert list(chaos_module._module.gates) == []
