"""What is told to people is one line, whatever is in it."""

import pytest

from drillmaster.errors import Problem, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\x0ab"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),  # the one-byte way to begin a control sequence
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("r\udcff", r"r\udcff"),  # a path that is no UTF-8
        ("\u2028", r"\u2028"),
        ("Zoë 東京 🎉", "Zoë 東京 🎉"),
    ],
)
def test_what_repaints_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_a_problem_is_one_line_and_can_be_printed() -> None:
    problem = Problem("runs/\x1b[2J\n\udcff", found="\u202e", wanted="\x85", remedy="rm 'a\rb'")
    assert str(problem) == r"runs/\x1b[2J\x0a\udcff: found \u202e, wanted \x85; rm 'a\x0db'"
    assert problem.place == "runs/\x1b[2J\n\udcff"  # what a program takes from it is as it was


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("rules/0: found 0, wanted 1; add one; then go on", ("rules/0", "0", "1", "add one; then go on")),
        ("rules/0: found 0, wanted 1", ("rules/0", "0", "1", "correct it")),
        ("no time left", ("here", "no time left", "more", "correct it")),
        ("", ("here", "", "more", "correct it")),
    ],
)
def test_a_problem_is_read_from_its_sentence(said: str, read: tuple[str, str, str, str]) -> None:
    one = Problem.of(said, place="here", wanted="more")
    assert (one.place, one.found, one.wanted, one.remedy) == read


def test_what_is_found_may_be_long_and_what_is_told_of_it_is_not() -> None:
    problem = Problem("m.yaml", found=repr("x" * 100_000), wanted="2xx", remedy="shorten it")
    assert problem.found.startswith("'xxx")
    assert problem.found.endswith("xxx'")
    assert len(str(problem)) < 4_100
