"""Another Unix account: whatever it holds of a drill, it orders nothing, and is told so."""

import importlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drillmaster import cli
from drillmaster.conduct import Role
from drillmaster.errors import Refused
from drillmaster.run.control import Asked, ask
from drillmaster.run.seats import Live, open_state, started_ticks
from tests.e2e.test_control import Desk

# The desk is a thread, and what is forked beside it asks once and is gone.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

OTHER = 54_321
"""The uid of nobody who has an account here."""


@pytest.fixture(autouse=True)
def root() -> None:
    if os.getuid() != 0:
        pytest.skip("needs root: only root can be somebody else for a moment")


@pytest.fixture
def desk(short_dir: Path) -> Iterator[Desk]:
    made = Desk(short_dir / "conductor.sock")
    try:
        yield made
    finally:
        made.close()


def as_other(deed: Callable[[], object]) -> str:
    """Do something in a process of the other uid; what came of it, in words."""
    mine, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            said = f"done {deed()!r}"
        except BaseException as error:  # a child of a fork may not come back into pytest
            said = f"{type(error).__name__} {error}"
        os.write(theirs, said.encode("utf-8", "replace")[:60_000])
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


def opened(path: Path) -> Callable[[], object]:
    def deed() -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))

    return deed


def test_another_account_cannot_open_the_socket_of_a_drill(desk: Desk) -> None:
    assert "PermissionError" in as_other(opened(desk.path))
    desk.path.parent.chmod(0o755)  # the folder of sockets may lie in one that others see into
    assert "PermissionError" in as_other(opened(desk.path))


@pytest.mark.parametrize("order", ["inject", "lift", "note", "state"])
def test_another_account_is_turned_away_though_somebody_opened_the_door_and_lent_a_token(
    desk: Desk, order: str
) -> None:
    desk.path.parent.chmod(0o755)
    desk.path.chmod(0o777)
    assert as_other(opened(desk.path)).startswith("done")
    asked = Asked(order=order, token="any")  # type: ignore[arg-type]  # one of the words of an order
    said = as_other(lambda: ask(str(desk.path), asked))
    assert said.startswith("Refused") and f"uid {OTHER}" in said and "the drill's user" in said
    assert desk.asked == []
    assert ask(str(desk.path), asked).done  # and root, or the drill's own user, is heard
    with pytest.raises(Refused):
        ask(str(desk.path), Asked(order="stop", token="any"))


@pytest.mark.parametrize("verb", [["lift"], ["inject"], ["stop"], ["note", "injection_seen"]])
def test_a_verb_of_another_account_is_refused_with_a_line_whatever_it_was_handed(
    verb: list[str], short_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRILLMASTER_STATE", str(short_dir))
    run = "20261129T153000Z-1a2b"
    seats = open_state(run)
    desk = Desk(seats.control)
    seats.write_live(
        Live(
            run=run,
            run_dir=str(short_dir / run),
            pid=os.getpid(),
            started=started_ticks(os.getpid()) or 0,
            control=str(seats.control),
            proxy_control=str(seats.proxy_control),
            listen="http://127.0.0.1:1",
            target="target",
        )
    )
    handed = short_dir / "handed.token"
    handed.write_bytes(seats.token_file(Role.LEAD).read_bytes())
    handed.chmod(0o600)
    os.chown(handed, OTHER, OTHER)
    # The other account has a drillmaster of its own; here it is this one, and it has to be read before the uid changes.
    for name in ("cli.lift", "cli.inject", "cli.stop", "cli.note", "cli._streams", "run.verbs", "timeline.opening"):
        importlib.import_module(f"drillmaster.{name}")
    try:
        for locked in (0o700, 0o755):
            short_dir.chmod(locked)

            def deed() -> object:
                try:
                    return cli.main(argv=[*verb, "--token-file", str(handed), "--json"])
                except SystemExit as done:
                    return int(done.code or 0)

            capfd.readouterr()
            assert as_other(deed).endswith(" 2")
            told = capfd.readouterr()
            assert "internal error" not in told.err and "Traceback" not in told.err
            assert json.loads(told.out)["exit"] == 2
            assert "no live run" not in told.err, "it is live; it is not this account's"
        assert desk.asked == []
    finally:
        desk.close()
