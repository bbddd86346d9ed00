"""Blanks: what a person left nothing behind."""

from drillmaster.strict import nulls


def test_each_null_has_its_place_at_any_depth() -> None:
    value = {"a": None, "b": {"c": [1, None, {"d": None}]}, "e": 0, "f": "", "g": False, "h": []}
    assert list(nulls(value)) == ["/a", "/b/c/1", "/b/c/2/d"]  # nought, empty and false are values
    assert list(nulls({"a": None}, "/gates/0")) == ["/gates/0/a"]


def test_a_file_of_nothing_is_one_blank() -> None:
    assert list(nulls(None)) == [""]
