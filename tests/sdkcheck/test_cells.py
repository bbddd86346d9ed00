"""Which cells there are."""

import pytest

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.sdkcheck.cells import CALLS, CLIENTS, NODE_CLIENTS, PLAIN, TRIED, choose, plan

OPENAI, RESPONSES, ANTHROPIC, HELPER = CLIENTS[:4]


def test_every_fault_of_the_catalogue_has_cells_or_says_why_not() -> None:
    cells, left_out = plan([OPENAI])
    assert {cell.fault for cell in cells} | {entry.label.split()[0] for entry in left_out} == set(faults.names())
    assert all(entry.why for entry in left_out)


def test_an_entry_that_needs_a_parameter_nobody_knows_is_listed_and_not_dropped() -> None:
    kind = faults.load("throttle")
    held = PLAIN.pop("bytes_per_s")
    try:
        cells, left_out = plan([OPENAI], [str(kind.__struct_config__.tag)])
    finally:
        PLAIN["bytes_per_s"] = held
    assert not cells
    assert "bytes_per_s" in left_out[0].why


def test_cells_are_whole_and_streamed_but_where_the_client_only_streams() -> None:
    cells, _ = plan([OPENAI, HELPER], ["hang"])
    assert [(cell.client, cell.stream) for cell in cells] == [
        ("openai", False),
        ("openai", True),
        ("anthropic-helper", True),
    ]


def test_no_two_cells_share_a_folder() -> None:
    cells, _ = plan(CLIENTS)
    assert len({cell.id for cell in cells}) == len(cells)


def test_every_documented_shape_of_an_error_in_a_stream_is_tried() -> None:
    cells, _ = plan([RESPONSES], ["error-event"])
    assert {cell.params["shape"] for cell in cells} == {"flat", "nested", "failed"}


def test_what_is_tried_is_in_the_catalogue_and_valid() -> None:
    for tag, sets in TRIED.items():
        for params in sets:
            faults.make(tag, params)
    assert set(CALLS) <= set(faults.names())


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


def test_names_of_clients_are_unique() -> None:
    names = [client.name for client in (*CLIENTS, *NODE_CLIENTS)]
    assert len(set(names)) == len(names)
