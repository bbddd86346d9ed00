"""Which cells there are."""

import ast
import runpy
from types import SimpleNamespace as NS
from typing import Any, ClassVar

import pytest

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.sdkcheck.cells import CLIENTS, EVERYONE, TRIED, choose, plan
from drillmaster.sdkcheck.hosts import PROBES

OPENAI, RESPONSES, ANTHROPIC, HELPER = CLIENTS[:4]


def test_every_fault_of_the_catalogue_has_cells_or_says_why_not() -> None:
    cells, left_out = plan([OPENAI])
    assert {cell.fault for cell in cells} | {entry.label.split()[0] for entry in left_out} == set(faults.names())
    assert all(entry.why for entry in left_out)


def test_a_fault_that_no_call_of_the_check_can_meet_is_listed_once_for_all() -> None:
    cells, left_out = plan(CLIENTS, ["mcp-hang", "tool-unknown"])
    assert not cells
    assert [(entry.client, entry.label) for entry in left_out] == [(EVERYONE, "mcp-hang"), (EVERYONE, "tool-unknown")]


def test_an_entry_that_cannot_be_made_is_listed_and_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRIED, "throttle", {"": {}})
    cells, left_out = plan([OPENAI], ["throttle"])
    assert not cells
    assert "bytes_per_s" in left_out[0].why


def test_what_must_be_given_is_the_entrys_own_example() -> None:
    cells, _ = plan([HELPER], ["daily-quota"])
    assert [(cell.params, cell.calls) for cell in cells] == [({"requests": 1}, 2)]


def test_cells_are_whole_and_streamed_but_where_the_client_only_streams() -> None:
    cells, _ = plan([OPENAI, HELPER], ["hang"])
    assert [(cell.client, cell.stream) for cell in cells] == [
        ("openai", False),
        ("openai", True),
        ("anthropic-helper", True),
    ]


@pytest.mark.parametrize(("tag", "streams"), [("clean-end", {True}), ("malformed-json", {False})])
def test_a_fault_is_tried_only_on_what_it_can_strike(tag: str, streams: set[bool]) -> None:
    cells, _ = plan([OPENAI, HELPER], [tag])
    assert {cell.stream for cell in cells} == streams


def test_what_takes_long_comes_first() -> None:
    faults_in_order = [cell.fault for cell in plan([OPENAI], ["401", "503", "hang"][1:])[0]]
    assert faults_in_order == ["hang", "hang", "503", "503"]


def test_no_two_cells_share_a_folder() -> None:
    cells, _ = plan(CLIENTS)
    assert len({cell.id for cell in cells}) == len(cells)


def test_every_documented_shape_of_an_error_in_a_stream_is_tried() -> None:
    cells, _ = plan([RESPONSES], ["error-event"])
    assert {cell.params["shape"] for cell in cells} == {"flat", "nested", "failed"}


def test_what_is_tried_is_in_the_catalogue_and_valid() -> None:
    for tag, sets in TRIED.items():
        for params in sets.values():
            faults.make(tag, params)


def test_a_client_is_chosen_by_its_name_or_its_package() -> None:
    assert choose(CLIENTS, ["anthropic"]) == (ANTHROPIC, HELPER)
    assert choose(CLIENTS, ["openai-responses"]) == (RESPONSES,)
    assert choose(CLIENTS, []) == CLIENTS


def test_a_client_that_is_not_installed_is_a_problem() -> None:
    with pytest.raises(Problem, match="groq"):
        choose([OPENAI], ["groq"])


def test_a_fault_that_is_not_there_is_a_problem() -> None:
    with pytest.raises(Problem, match="did you mean hang"):
        plan([OPENAI], ["hagn"])


def test_names_of_clients_are_unique_and_each_has_its_probe() -> None:
    names = [client.name for client in CLIENTS]
    assert len(set(names)) == len(names)
    python = {client.name for client in CLIENTS if client.runtime == "python"}
    assert set(runpy.run_path(str(PROBES / "clients.py"))["PROBES"]) == python
    node = (PROBES / "clients.mjs").read_text().partition("export default {")[2]
    assert all(f'"{name}":' in node for name in set(names) - python)


@pytest.mark.parametrize("name", ["host.py", "clients.py"])
def test_what_runs_under_the_users_python_is_written_for_an_old_one(name: str) -> None:
    ast.parse((PROBES / name).read_text(), feature_version=(3, 9))


class Answer:
    """As an SDK gives it where the body was an empty object."""

    choices = None


class Choice:
    class message:  # an attribute of an answer
        content = "hello"

    finish_reason = "stop"


class Good:
    choices: ClassVar = [Choice()]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<html>", {"kind": "str", "text": "<html>"}),
        (Answer(), {"kind": "Answer", "text": None, "note": "choices=None"}),
        ({}, {"kind": "dict", "text": None, "note": "choices=None"}),
        (Good(), {"kind": "Good", "text": "hello", "finish": "stop"}),
    ],
)
def test_an_answer_is_looked_at_and_never_trusted(answer: Any, said: dict[str, Any]) -> None:
    assert runpy.run_path(str(PROBES / "clients.py"))["whole_chat"](answer) == said


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_lines_are_read_with_and_without_their_ends(end: str) -> None:
    event = 'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}'
    said = runpy.run_path(str(PROBES / "clients.py"))["streamed_raw"]([event + end, end, "data: [DONE]" + end])
    assert (said["text"], said["finish"]) == ("hi", "stop")


JOB = {"model": "m", "prompt": "p", "stream": True, "limit_s": 1.0}


def bare(name: str, lib: Any = None) -> Any:
    """A probe without its package."""
    kind = runpy.run_path(str(PROBES / "clients.py"))["PROBES"][name]
    one = kind.__new__(kind)
    one.lib = lib
    return one


def test_old_releases_are_called_as_they_want_it() -> None:
    """What moved between releases: a stream that is no context manager, fields that were not there yet."""
    delta = NS(choices=[NS(delta=NS(content="hi"), finish_reason="stop")])
    client = NS(chat=NS(stream=lambda **asked: iter([NS(data=delta)])))
    assert bare("mistralai").call(client, JOB)["text"] == "hi"
    none = {"connect_s": None, "read_s": None, "retries": 0}
    assert bare("google-genai", NS(types=NS(HttpOptions=NS))).defaults() == none
    inner = NS(timeout=60.0, max_retries=2)
    said = {"connect_s": 60.0, "read_s": 60.0, "retries": 2}
    old = NS(ChatOpenAI=lambda **options: NS(client=NS(_client=inner)))
    assert bare("langchain-openai", old).defaults() == said
    assert bare("langchain-openai", NS(ChatOpenAI=lambda **options: NS(root_client=inner))).defaults() == said


@pytest.mark.parametrize(("own", "read_s"), [(600, 600), (None, 42.0), (..., 42.0)])
def test_a_time_limit_of_anthropics_calls_is_stronger_than_the_clients(own: Any, read_s: float) -> None:
    def create(timeout: Any = own) -> None: ...

    client = NS(messages=NS(create=create, stream=create), timeout=42.0, max_retries=2)
    probe = bare("anthropic", NS(Anthropic=lambda **options: client))
    assert probe.defaults() == {"connect_s": read_s, "read_s": read_s, "retries": 2}
    assert probe.asked(JOB)["timeout"] == 1.0


class Limits:
    connect, read = 5.0, 60.0


@pytest.mark.parametrize(
    ("of", "connect_s", "read_s"),
    [
        (None, None, None),
        (Limits(), 5.0, 60.0),
        (600, 600, 600),
        (2.5, 2.5, 2.5),
    ],  # one number is a limit of everything
)
def test_a_clients_own_limits_are_read_in_each_form(of: Any, connect_s: float | None, read_s: float | None) -> None:
    limits = runpy.run_path(str(PROBES / "clients.py"))["limits"]
    assert limits(of, 2) == {"connect_s": connect_s, "read_s": read_s, "retries": 2}


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("127.example", False),  # a name, which would be looked up
        ("127.0.0.1.example", False),
        ("192.0.2.1", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_only_an_address_of_loopback_is_one(host: str, ours: bool) -> None:
    assert runpy.run_path(str(PROBES / "host.py"))["loopback"](host) is ours
