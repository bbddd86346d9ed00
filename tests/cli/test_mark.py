"""What a person or a shell script types, and what lands in the file."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from drillmaster.cli.mark import command, parse_field
from drillmaster.errors import Problem
from drillmaster.evidence import Row, rows


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("status=502", "status", 502),
        ("status=000", "status", 0),  # curl's word for no connection
        ("ms=412.5", "ms", 412.5),
        ("n=-1", "n", -1),
        ("ok=true", "ok", True),
        ("ok=false", "ok", False),
        ("x=null", "x", None),
        ("id=42", "id", "42"),  # joined with ids that workers write as text
        ("by=true", "by", "true"),
        ("text=a=b", "text", "a=b"),
        ("text=", "text", ""),
        ("x=True", "x", "True"),
        ("x=NaN", "x", "NaN"),
        ("x=1e3", "x", "1e3"),
        ("x=0x10", "x", "0x10"),
        ("x=007", "x", "007"),
        ("x=1_000", "x", "1_000"),
        ("x=+1", "x", "+1"),
        ("x=\u0661", "x", "\u0661"),
        ("x=12345678901234567890", "x", "12345678901234567890"),
        ("x=.5", "x", ".5"),
        ("seen_at=2026-11-29T12:00:00+01:00", "seen_at", "2026-11-29T12:00:00+01:00"),
    ],
)
def test_only_plain_forms_are_values(argument: str, key: str, value: object) -> None:
    found = parse_field(argument)
    assert found == (key, value)
    assert type(found[1]) is type(value)


@pytest.mark.parametrize(
    "argument",
    ["t=2026-11-29T12:00:00Z", "event=x", "ns=1", "status", "=1", "seen_at=noon", "seen_at=2026-11-29T12:00:00"],
)
def test_a_field_that_cannot_be_is_refused(argument: str) -> None:
    with pytest.raises(Problem):
        parse_field(argument)


def mark(*arguments: str, log: Path | None = None) -> Problem | int:
    done = CliRunner(env={"DRILL_LOG": str(log) if log else None}).invoke(command, arguments)
    return done.exception if isinstance(done.exception, Problem) else done.exit_code


def test_a_line_goes_where_drill_log_says(tmp_path: Path) -> None:
    log = tmp_path / "drill.jsonl"
    assert mark("note", "kind=injection_seen", "text=it is on", "by=Sam", log=log) == 0
    (row,) = rows([log.read_bytes()], file="f")
    assert isinstance(row, Row)
    assert {k: v for k, v in row.fields.items() if k != "t"} == {
        "event": "note",
        "kind": "injection_seen",
        "text": "it is on",
        "by": "Sam",
    }


@pytest.mark.parametrize(
    ("event", "meant"),
    [
        ("fallbck_engaged", "fallback_engaged"),
        ("fallback-engaged", "fallback_engaged"),
        ("cache_warmed", None),  # an event of the worker's own
        ("fallback_engaged", None),
    ],
)
def test_an_event_that_is_nearly_one_that_gates_ask_for_is_written_and_asked_about(
    event: str, meant: str | None, tmp_path: Path
) -> None:
    result = CliRunner(env={"DRILL_LOG": str(tmp_path / "drill.jsonl")}).invoke(command, [event])
    assert result.exit_code == 0
    assert f'"{event}"' in (tmp_path / "drill.jsonl").read_text("utf-8")
    assert (f"did you mean {meant}?" in result.stderr) if meant else result.stderr == ""


def test_an_option_outranks_the_variable(tmp_path: Path) -> None:
    assert mark("note", "--log", str(tmp_path / "a"), log=tmp_path / "b") == 0
    assert (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["note"], "DRILL_LOG"),
        (["status=200", "--log", "x"], "drillmaster mark fallback_engaged"),
        (["", "--log", "x"], "drillmaster mark fallback_engaged"),
        (["note", "a=1", "a=2", "--log", "x"], "write one a="),
        (["note", "--log", "/nonexistent/folder/x"], "make the folder"),
        (["note", "--log", "/"], "regular file"),
    ],
)
def test_a_line_that_could_not_be_written_is_exit_2_and_says_why(
    arguments: list[str], remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = mark(*arguments)
    assert isinstance(found, Problem)
    assert found.exit == 2
    assert remedy in found.remedy
    assert list(tmp_path.iterdir()) == []
