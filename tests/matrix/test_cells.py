"""Which cells there are, and why the others are not."""

import pytest

from drillmaster import dialects, faults
from drillmaster.errors import Problem
from drillmaster.matrix import GROUPS, USUAL, Cell, Pair, Wanted, choose, lay_out, rules_of, why_not
from drillmaster.matrix.cells import MAX_CELLS
from drillmaster.plan import Matrix, Pick
from drillmaster.targeting import what_is_wrong

WHOLE = Pair(dialect="openai_chat", stream=False, attempts=9)
STREAMED = Pair(dialect="openai_chat", stream=True, attempts=5)


def want(*tags: str) -> tuple[Wanted, ...]:
    return choose(Matrix(), tags=tags)


def test_every_fault_of_the_catalogue_can_be_chosen_and_laid_out() -> None:
    wanted = choose(Matrix(), everything=True)
    assert {one.tag for one in wanted} == set(faults.names())
    cells, left_out = lay_out(wanted, (WHOLE, STREAMED))
    assert {c.fault for c in cells} | {e.label for e in left_out} == set(faults.names())
    assert [c.cell for c in cells] == [f"w{n}" for n in range(1, len(cells) + 1)]


def test_every_cell_of_every_api_is_an_injection_that_the_proxy_takes() -> None:
    spoken = [Pair(dialect=name, stream=stream, attempts=1) for name in dialects.names() for stream in (False, True)]
    cells, _ = lay_out(choose(Matrix(), everything=True), spoken)
    for cell in cells:
        rules = rules_of(cell)
        assert not list(what_is_wrong(rules, lambda tag: faults.load(tag).scope, "")), cell


def test_without_a_choice_it_is_the_usual_ones_which_exist_and_are_of_several_groups() -> None:
    assert tuple(one.tag for one in choose(Matrix())) == USUAL
    assert len({faults.load(tag).group for tag in USUAL}) >= 5


def test_the_plans_choice_holds_until_the_command_line_makes_another() -> None:
    matrix = Matrix(faults=("reset", 503, Pick(mode="status", params={"status": 502, "html": True})))
    assert [one.label for one in choose(matrix)] == ["reset", "503", "status status=502 html=True"]
    assert [one.tag for one in choose(matrix, tags=("hang",))] == ["hang"]


def test_one_fault_may_come_twice_with_other_parameters_and_not_with_the_same() -> None:
    picks = (Pick(mode="status", params={"status": 500}), Pick(mode="status", params={"status": 502}), "reset", "reset")
    assert [one.label for one in choose(Matrix(faults=picks))] == ["status status=500", "status status=502", "reset"]


@pytest.mark.parametrize("group", [g for g in GROUPS if g != "other"])
def test_a_group_is_all_its_faults(group: str) -> None:
    found = {one.tag for one in choose(Matrix(), groups=(group,))}
    assert found and found == {tag for tag in faults.names() if faults.load(tag).group == group}


@pytest.mark.parametrize(
    ("matrix", "named"),
    [
        (Matrix(faults=("no-such-fault",)), "fault"),
        (Matrix(groups=("no-such-group",)), "group"),
        (Matrix(faults=(Pick(mode="cut-body", params={"after_bytes": -1}),)), "cut-body"),
        (Matrix(faults=(Pick(mode="reset", params={"no_such": 1}),)), "reset"),
    ],
)
def test_what_is_no_fault_is_refused_by_name(matrix: Matrix, named: str) -> None:
    with pytest.raises(Problem, match=named):
        choose(matrix)


def test_groups_are_the_catalogues_own() -> None:
    assert {faults.load(tag).group for tag in faults.names()} <= set(GROUPS)


def test_a_fault_of_the_port_is_one_cell_for_all_and_has_no_rule() -> None:
    cells, left_out = lay_out(want("refused", "rst-on-accept"), (WHOLE, STREAMED))
    assert [(c.dialect, c.stream) for c in cells] == [(None, None)] * 2
    assert left_out == ()
    assert all(rule.plain and not rule.name for cell in cells for rule in rules_of(cell))


def test_a_fault_of_requests_is_aimed_at_its_api_and_way_of_asking() -> None:
    (cell,), _ = lay_out(want("503"), (STREAMED,))
    (rule,) = rules_of(cell)
    assert (rule.when.dialect, rule.when.stream, rule.tag) == ("openai_chat", True, "503")


def test_a_fault_that_leads_clients_to_a_page_of_its_own_meets_them_there_too() -> None:
    (cell,), _ = lay_out(want("login-redirect"), (STREAMED,))
    aimed, page = rules_of(cell)
    assert (aimed.when.dialect, aimed.when.stream) == ("openai_chat", True)
    assert (page.tag, page.when.path, page.when.dialect, page.when.stream) == (
        "login-redirect",
        "/drill-login",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("tag", "spoken", "cells", "why"),
    [
        ("stall", (WHOLE,), 0, "it strikes streamed answers alone"),
        ("stall", (WHOLE,), 0, "this agent asked openai_chat for no streams in the baseline"),
        ("malformed-json", (STREAMED,), 0, "this agent asked openai_chat for no whole answers in the baseline"),
        ("mcp-error", (WHOLE, STREAMED), 0, "it strikes calls of MCP alone, and this agent made none in the baseline"),
        ("refusal", (Pair(dialect="mcp", stream=False, attempts=1),), 0, "and MCP is none"),
        ("wrong-model", (Pair(dialect="plain", stream=False, attempts=1),), 0, "plain HTTP does not say"),
        ("clean-end", (Pair(dialect="plain", stream=True, attempts=1),), 0, "no last word to strike before"),
        ("reset", (), 0, "the agent asked for nothing"),
        ("refused", (), 0, "the agent asked for nothing"),
        ("reset", (WHOLE,), 1, "no streams"),  # the whole answers are run, the streams are not
    ],
)
def test_what_is_left_out_says_why(tag: str, spoken: tuple[Pair, ...], cells: int, why: str) -> None:
    run, left_out = lay_out(want(tag), spoken)
    assert len(run) == cells
    assert any(why in entry.why for entry in left_out), left_out
    assert not any(entry.should for entry in left_out)


def test_two_apis_are_two_columns_and_nothing_falls_between_them() -> None:
    spoken = (WHOLE, STREAMED, Pair(dialect="anthropic", stream=True, attempts=1))
    cells, left_out = lay_out(want("503", "stall"), spoken)
    assert len(cells) + len(left_out) == 2 * 2 * 2
    assert {(c.fault, c.dialect, c.stream) for c in cells} == {
        ("503", "openai_chat", False),
        ("503", "openai_chat", True),
        ("503", "anthropic", True),
        ("stall", "openai_chat", True),
        ("stall", "anthropic", True),
    }


def test_a_matrix_has_an_end() -> None:
    spoken = [Pair(dialect=name, stream=stream, attempts=1) for name in dialects.names() for stream in (False, True)]
    cells, left_out = lay_out(choose(Matrix(), everything=True), spoken)
    assert len(cells) == MAX_CELLS
    assert any("over" in entry.why for entry in left_out)


def test_what_a_fault_needs_decides_and_nothing_else() -> None:
    for tag in faults.names():
        kind = faults.load(tag)
        (one,) = want(tag)
        if kind.scope == "exchange" and not kind.needs:
            fault = faults.make(one.tag, one.params)
            assert all(why_not(fault, name, stream=s) is None for name in dialects.names() for s in (False, True)), tag


def test_a_cell_says_what_it_is_tried_with() -> None:
    (cell,), _ = lay_out(want("first-byte-delay"), (WHOLE,))
    assert cell == Cell(
        cell="w1", label="first-byte-delay", fault="first-byte-delay", params={"delay_ms": 3000},
        dialect="openai_chat", stream=False,
    )  # fmt: skip
