"""`drillmaster flags`: what it says without a server, and how it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from drillmaster.cli import main
from drillmaster.cli._completions import capabilities, flags
from drillmaster.flags.keeping import folder_of, make_tokens
from tests.flags.test_board import REGISTRY

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHAOS_URL", raising=False)
    path = tmp_path / "flags.yaml"
    path.write_bytes(REGISTRY)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(argv=["flags", *words])
    said = capsys.readouterr()
    return int(str(ended.value.code or 0)), said.out, said.err


def test_a_registry_is_listed_without_a_server(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list", "--registry", "flags.yaml", "--json")
    told = json.loads(out)
    assert (code, told["service"], [row["name"] for row in told["flags"]]) == (
        0,
        "concierge",
        ["slow", "broken", "refund"],
    )
    assert run(capsys, "show", "slow", "--registry", "flags.yaml")[0] == 0


def test_a_name_that_is_none_is_refused_with_the_one_that_was_meant(
    registry: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "show", "slwo", "--registry", "flags.yaml")
    assert (code, "Did you mean 'slow'?" in err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [("list",), ("show", "slow"), ("enable", "slow"), ("disable", "slow"), ("kill", "refund"), ("restore", "refund")],
)
def test_without_a_server_nothing_is_said_to_be_done(
    registry: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """B15.23: an order that reached nobody must not look like one that was carried out."""
    code, _, err = run(capsys, *words, "--url", NOBODY)
    assert (code, "drillmaster flags serve" in err) == (2, True)


def test_a_token_is_not_sent_to_another_machine_unasked(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "kill", "refund", "--url", "http://flags.example:8070")
    assert (code, "--token-file" in err) == (2, True)


def test_an_export_of_a_registry_has_all_off(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "export", "--flagd", "-", "--registry", "flags.yaml")
    assert (code, {flag["defaultVariant"] for flag in json.loads(out)["flags"].values()}) == (0, {"off"})


def test_listening_for_others_is_said_twice(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "serve", "--listen", "10.0.0.1:8070")
    assert (code, "--allow-host 10.0.0.1" in err) == (2, True)


def test_names_are_completed_from_the_registry_that_lies_here(registry: Path) -> None:
    ctx = param = None
    assert flags(ctx, param, "s") == ["slow"]  # type: ignore[arg-type]  # it looks at neither
    assert capabilities(ctx, param, "") == ["refund"]  # type: ignore[arg-type]  # likewise
    registry.write_text("no registry")
    assert flags(ctx, param, "") == []  # type: ignore[arg-type]  # likewise


def test_tokens_are_made_once_and_are_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "state"))
    folder = folder_of("Escalation Concierge/../x")
    assert folder.parent == tmp_path / "state" / "flags"
    first = {seat: path.read_text() for seat, path in make_tokens(folder).items()}
    assert len(set(first.values())) == 3
    assert {seat: path.read_text() for seat, path in make_tokens(folder).items()} == first
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_every_verb_has_an_example() -> None:
    from drillmaster.cli.flags import command

    for name in command.commands:
        told = CliRunner().invoke(command, [name, "--help"]).output
        assert f"drillmaster flags {name}" in told, name
