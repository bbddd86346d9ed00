"""A process of our own: what it makes of its one argument, and what its log says of it."""

from pathlib import Path

import msgspec
import pytest

from drillmaster.child import last_lines, main
from drillmaster.errors import Problem


class Told(msgspec.Struct, forbid_unknown_fields=True):
    code: int


def code_of(told: Told) -> int:
    return told.code


def refuse(told: Told) -> int:
    raise Problem("port", found="taken", wanted="a free one", remedy="choose another")


def test_settings_are_run_and_their_end_is_the_exit_code() -> None:
    assert main("drillmaster.x", Told, code_of, ["x", '{"code": 3}'], verb="x") == 3


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["x"], "usage: python -m drillmaster.x JSON   (people use: drillmaster x serve)"),
        (["x", "{}", "more"], "usage: "),
        (["x", ""], "drillmaster.x: settings: "),
        (["x", "{"], "drillmaster.x: settings: "),
        (["x", '{"code": 0, "other": 1}'], "drillmaster.x: settings: "),  # nothing is passed over
    ],
)
def test_what_is_no_settings_is_refused_in_a_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("drillmaster.x", Told, code_of, argv, verb="x serve") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(said)


def test_what_cannot_start_says_why_where_its_owner_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("drillmaster.x", Told, refuse, ["x", '{"code": 0}'], verb="x") == 2
    assert capsys.readouterr().err.startswith("drillmaster.x: port: found taken")


def test_last_lines_are_those_that_say_something_without_what_a_terminal_obeys(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo \x1b[31mred\n\n" + b"3" * 300 + b"\n\n")
    assert last_lines(log, 2) == ("two  [31mred", "3" * 200)
    assert last_lines(log, 1, max_chars=250) == ("3" * 250,)


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "log", 5) == ()
