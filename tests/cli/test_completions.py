"""What a Tab offers: a shell looks for files only where it is told to, and it is told wherever a path is wanted."""

import re
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete

from drillmaster import cli

_PATH = re.compile(r"\b(FILE|DIR|PATH|PLAN|RUN|THRESHOLDS|FILE\.jsonl|OLD\.json)\b")


def _commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{above}{name} ")


def _offered(words: str, incomplete: str) -> set[str]:
    """The kinds of what is offered."""
    shell = ShellComplete(cli._root, {}, "drillmaster", "_DRILLMASTER_COMPLETE")
    return {item.type for item in shell.get_completions(words.split(), incomplete)}


def _wanting_paths() -> Iterator[tuple[str, str]]:
    for words, command in _commands(cli._root):
        for parameter in command.params:
            takes_path = isinstance(parameter.type, click.Path) or bool(_PATH.search(parameter.metavar or ""))
            if takes_path and isinstance(parameter, click.Option):
                yield f"{words} {parameter.opts[0]}", str(parameter.metavar)


@pytest.mark.parametrize(("words", "metavar"), sorted(_wanting_paths()))
def test_every_option_that_takes_a_path_leaves_it_to_the_shell(words: str, metavar: str) -> None:
    assert _offered(words, "no-such-ru") & {"file", "dir"}, metavar


@pytest.mark.parametrize(
    "words",
    [
        "run eviction",
        "run matrix",
        "gate eviction",
        "gate interview",
        "gate interview interview.json",
        "interview",
        "card",
        "report",
        "verify",
        "seal",
        "matrix",
        "inject",
        "lift",
        "stop",
    ],
)
def test_every_argument_that_takes_a_path_leaves_it_to_the_shell(words: str) -> None:
    assert _offered(words, "no-such-ru") & {"file", "dir"}


@pytest.mark.parametrize("words", ["interview --dialect", "probe --dialect"])
def test_an_interview_offers_the_apis_that_it_can_ask_in(words: str) -> None:
    shell = ShellComplete(cli._root, {}, "drillmaster", "_DRILLMASTER_COMPLETE")
    offered = [item.value for item in shell.get_completions(words.split(), "o")]
    assert offered == ["ollama", "openai_chat", "openai_responses", "openrouter"]
    assert not shell.get_completions(words.split(), "mcp")


def test_a_check_is_offered_to_whoever_wants_it_explained() -> None:
    shell = ShellComplete(cli._root, {}, "drillmaster", "_DRILLMASTER_COMPLETE")
    words = ["gate", "explain"]
    assert [item.value for item in shell.get_completions(words, "lane-o")] == ["lane-oracle"]
    assert [item.value for item in shell.get_completions(words, "gate-f")] == ["gate-files"]
    assert "oracle" in [item.value for item in shell.get_completions(words, "or")]
    assert not [item.value for item in shell.get_completions(words, "") if "*" in item.value]
