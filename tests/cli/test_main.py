import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from drillmaster import cli


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (RuntimeError("a bug of ours"), 2),  # a crash is no failed gate
        (KeyboardInterrupt(), 3),
        (click.UsageError("no such thing"), 2),
        (click.FileError("x"), 2),  # click's own code for this one is 1
    ],
)
def test_a_crash_or_an_interrupt_never_looks_like_a_failed_gate(
    raised: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise raised

    with pytest.raises(SystemExit) as ended:
        cli.main(click.Command("boom", callback=body), [])
    assert ended.value.code == code
    assert "Traceback" not in capsys.readouterr().err


def _numbers(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    for param in command.params:
        if isinstance(param.type, click.types.FloatParamType):
            yield words, param
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _numbers(inner, (*words, name))


def test_no_option_of_any_verb_takes_what_is_no_number_or_has_no_end() -> None:
    options = list(_numbers(cli._root))
    assert len(options) > 10
    for words, param in options:
        for value in ("nan", "inf", "-inf", "1e999"):
            with pytest.raises(click.BadParameter, match=r"finite|not in the range|<=|>="):
                param.process_value(click.Context(click.Command(" ".join(words))), value)


@pytest.mark.parametrize("words", [("run",), ("proxy",), ("standin",), ("fault",), ("gate",), ("init",), ("passport",)])
def test_a_list_of_commands_says_whole_sentences(words: tuple[str, ...]) -> None:
    said = CliRunner().invoke(cli._root, [*words, "--help"]).output.partition("Commands:")[2]
    assert said and "..." not in said.replace("q=...", "")


def test_the_first_page_of_help_lists_every_verb_once_under_what_it_is_for() -> None:
    said = CliRunner().invoke(cli._root, ["--help"], terminal_width=100).output
    listed = re.findall(r"^  ([a-z][a-z-]*)  +[A-Z]", said.partition("Drill an agent:")[2], re.M)
    assert sorted(listed) == cli._root.list_commands(click.Context(cli._root))
    assert "Guards in a worker:" in said and "..." not in said.partition("Drill an agent:")[2]


def test_python_dash_m_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "--version"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    assert "drillmaster" in done.stdout


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["gat"], "gate"), (["runs"], "run"), (["raport"], "report"), (["in-ject"], "inject"), (["xyzzy"], None)],
)
def test_a_verb_that_is_none_gets_the_one_that_was_meant(
    words: list[str], meant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=words)
    said = capsys.readouterr()
    assert ended.value.code == 2 and said.out == ""
    assert (f"Did you mean '{meant}'?" in said.err) if meant else ("Did you mean" not in said.err)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["report", "--json", "no-such-run"], "no such run"),
        (["report", "--json"], "Missing argument"),
        (["gate", "eviction", "--format", "json"], "no run"),
    ],
)
def test_where_json_was_asked_for_a_problem_is_json_too_and_alone_on_stdout(
    words: list[str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=words)
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert ended.value.code == told["exit"] == 2
    assert found in told["error"]["found"] and set(told["error"]) == {"place", "found", "wanted", "remedy"}
    assert said.err != ""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("drillmaster no", "note"),
        ("drillmaster note first", "first_fallback_seen"),
        ("drillmaster run eviction --mode h", "hang"),
        ("drillmaster demo --bug wrong", "wrong-except"),
        ("drillmaster card 2026", "20261129T153000Z-1a2b"),
        ("drillmaster report runs/2", "runs/20261129T153000Z-1a2b"),
    ],
)
def test_a_tab_completes_what_there_is(
    line: str, offered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "20261129T153000Z-1a2b"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for name, value in (
        ("_DRILLMASTER_COMPLETE", "bash_complete"),
        ("COMP_WORDS", line),
        ("COMP_CWORD", str(len(line.split()) - 1)),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        cli.main(argv=[])
    assert ended.value.code in (0, None)
    assert offered in [row.partition(",")[2] for row in capsys.readouterr().out.splitlines()]


def _run(shell: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    line = shell.replace("drillmaster", f"{sys.executable} -m drillmaster")
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=30, check=False, **more)


@pytest.mark.parametrize("words", ["--version", "--help", "gate --help"])
def test_what_cannot_be_printed_on_a_full_device_is_said_and_is_no_pass(words: str) -> None:
    done = _run(f"drillmaster {words} > /dev/full")
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["--version", "--help"])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(words: str, closed: str) -> None:
    assert _run(f"drillmaster {words} {closed}").returncode == 0
    assert _run(f"drillmaster no-such-verb {closed}").returncode == 2


def test_a_reader_that_went_away_changes_no_exit_code() -> None:
    done = _run("(sleep 0.3; drillmaster --help; echo $? >&2) | true")
    assert done.stderr.strip() == "0"


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_a_terminal_that_died_changes_no_exit_code(code: int) -> None:
    master, slave = os.openpty()
    program = "import click,sys,time; from drillmaster import cli\n"
    program += "def body():\n  print('up', flush=True); sys.stdin.read()\n"
    program += "  click.echo('x'); click.echo('x', err=True); sys.exit(int(sys.argv[1]))\n"
    program += "cli.main(click.Command('x', callback=body), [])"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(code)],
        stdin=subprocess.PIPE,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    assert os.read(master, 10)
    os.close(master)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=20) == code


def test_sigterm_is_no_failed_gate() -> None:
    program = "import click,time; from drillmaster import cli\n"
    program += "cli.main(click.Command('x', callback=lambda: (print('up', flush=True), time.sleep(60))), [])"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.terminate()
    assert process.wait(timeout=20) == 2
    process.stdout.close()


def test_a_broken_pipe_of_anything_else_is_a_crash_and_no_failed_gate() -> None:
    def body() -> None:
        raise BrokenPipeError(32, "a socket")

    with pytest.raises(SystemExit) as ended:
        cli.main(click.Command("boom", callback=body), [])
    assert ended.value.code == 2
