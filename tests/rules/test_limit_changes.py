"""What changed between two policies: by pointer, old to new, and which way."""

import pytest

from drillmaster.rules.limit_changes import LimitChange, limit_changes


def told(before: object, after: object) -> list[tuple[str, str, str, str]]:
    return [(one.pointer, one.before, one.after, one.way) for one in limit_changes(before, after)]


@pytest.mark.parametrize(
    "value",
    [{}, [], None, 1, "x", {"a": [1, {"b": 2}]}, {"gates": [{"gate": "canary", "max_p95_ms": 180}]}],
)
def test_what_is_the_same_has_not_changed(value: object) -> None:
    assert limit_changes(value, value) == ()


def test_order_of_names_and_of_named_entries_changes_nothing() -> None:
    before = {"a": 1, "gates": [{"gate": "x", "max_s": 1}, {"gate": "y", "max_s": 2}]}
    after = {"gates": [{"max_s": 2, "gate": "y"}, {"max_s": 1, "gate": "x"}], "a": 1.0}
    assert limit_changes(before, after) == ()


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ({"max_s": 60}, {"max_s": 90}, "looser"),
        ({"max_s": 60}, {"max_s": 30}, "tighter"),
        ({"min_requests": 100}, {"min_requests": 10}, "looser"),
        ({"min_requests": 100}, {"min_requests": 1000}, "tighter"),
        ({"owner": "ada"}, {"owner": "bea"}, "unknown"),
        ({"max_s": 60}, {"max_s": "60"}, "unknown"),
        ({"max_s": 1}, {"max_s": True}, "unknown"),
        ({"max_s": 1}, {"max_s": None}, "unknown"),
    ],
)
def test_a_changed_limit_says_which_way_it_went(before: object, after: object, way: str) -> None:
    assert [one.way for one in limit_changes(before, after)] == [way]


def test_what_came_and_went_is_told_leaf_by_leaf() -> None:
    before = {"gates": [{"gate": "x", "max_s": 1, "levels": {"c/1": {"p95_s": 2}}}]}
    after = {"gates": [{"gate": "y", "max_s": 1}, {"gate": "x", "levels": {}}]}
    assert told(before, after) == [
        ("/gates/0/gate", "(nothing)", '"y"', "unknown"),
        ("/gates/0/max_s", "(nothing)", "1", "tighter"),
        ("/gates/1/levels/c~11/p95_s", "2", "(nothing)", "unknown"),
        ("/gates/1/max_s", "1", "(nothing)", "looser"),
    ]


def test_a_list_without_names_is_compared_by_place() -> None:
    assert told({"runtimes": ["a", "b"]}, {"runtimes": ["b"]}) == [
        ("/runtimes/0", '"a"', '"b"', "unknown"),
        ("/runtimes/1", '"b"', "(nothing)", "unknown"),
    ]


def test_two_entries_of_one_name_are_compared_by_place() -> None:
    twice = [{"gate": "x", "max_s": 1}, {"gate": "x", "max_s": 2}]
    assert told({"gates": twice}, {"gates": twice[::-1]}) == [
        ("/gates/0/max_s", "1", "2", "looser"),
        ("/gates/1/max_s", "2", "1", "tighter"),
    ]


def test_a_file_of_another_kind_is_one_change() -> None:
    assert limit_changes({"a": 1}, [1]) == (LimitChange("", '{"a":1}', "[1]", "unknown"),)
