"""Token files, live runs and locks."""

import fcntl
import os
import socket
from pathlib import Path

import msgspec
import pytest

from drillmaster.conduct import Role
from drillmaster.errors import Problem, Refused
from drillmaster.intake.state import state_root
from drillmaster.run.seats import (
    SEATS,
    Live,
    find_live,
    left_proxies,
    live_at,
    live_runs,
    open_state,
    started_ticks,
    stop_load,
    sweep,
    take_lock,
)


@pytest.fixture(autouse=True)
def _state(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRILLMASTER_STATE", str(short_dir / "s"))  # short: a longer one puts sockets elsewhere in /tmp


def live(run: str, *, pid: int | None = None, started: int | None = None) -> Live:
    own = os.getpid()
    return Live(
        run=run, run_dir=f"/runs/{run}", pid=pid or own, started=started_ticks(own) or 0 if started is None else started,
        control="c", proxy_control="p", listen="http://127.0.0.1:1", target="target 127.0.0.1:2",
    )  # fmt: skip


def test_each_seat_has_a_token_of_its_own_that_nobody_else_can_read() -> None:
    state = open_state("r1")
    tokens = {role: state.token_file(role).read_text().strip() for role in SEATS}
    assert len(set(tokens.values())) == 3
    for role, token in tokens.items():
        assert state.role(token) is role
        assert state.token_file(role).stat().st_mode & 0o777 == 0o600
    assert state.folder.stat().st_mode & 0o777 == 0o700
    assert state_root().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("token", ["", "x", "é", "\udcff", "0" * 10_000])
def test_a_token_of_no_seat_is_nobody_s(token: str) -> None:
    assert open_state("r1").role(token) is None


def test_a_token_of_another_run_is_nobody_s() -> None:
    one, other = open_state("r1"), open_state("r2")
    assert other.role(one.token_file(Role.LEAD).read_text().strip()) is None


def test_a_state_folder_that_others_could_read_is_closed_to_them() -> None:
    state_root().mkdir(mode=0o755)
    open_state("r1")
    assert state_root().stat().st_mode & 0o777 == 0o700


def test_a_state_folder_that_cannot_be_made_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / "file"))
    with pytest.raises(Problem, match="DRILLMASTER_STATE"):
        open_state("r1")


def test_a_path_too_long_for_a_socket_gets_a_private_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / ("x" * 120)))
    state = open_state("r1")
    assert len(str(state.control)) < 100 and state.sockets != state.folder
    assert state.sockets.stat().st_mode & 0o777 == 0o700
    state.close()
    assert not state.sockets.exists()


def test_after_the_run_nothing_of_it_is_left_in_the_state_folder() -> None:
    state = open_state("r1")
    state.write_live(live("r1"))
    state.close()
    assert list(state_root().iterdir()) == []


def test_a_proxy_that_goes_on_keeps_its_socket_and_no_token_stays() -> None:
    state = open_state("r1")
    state.write_live(live("r1"))
    state.proxy_control.touch()
    state.close(keep_proxy=True)
    assert [path.name for path in state.folder.iterdir()] == ["proxy.sock"]


KILLED, YOUNG, GOING_ON = "20261129T150000Z-aaaa", "20261129T150000Z-bbbb", "20261129T150000Z-cccc"


def test_what_a_killed_conductor_left_goes_with_the_next_drill_and_nothing_else_does() -> None:
    open_state(KILLED).write_live(live(KILLED, pid=2**22 + 1))
    open_state(YOUNG)  # another drill, that has not said yet that it is live
    open_state(GOING_ON).write_live(live(GOING_ON))
    (state_root() / "mine").mkdir()
    sweep()
    assert sorted(path.name for path in state_root().iterdir()) == [YOUNG, GOING_ON, "mine"]


def test_the_sockets_of_a_killed_conductor_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRILLMASTER_STATE", str(tmp_path / ("x" * 120)))
    state = open_state(KILLED)
    left = msgspec.structs.replace(live(KILLED, pid=2**22 + 1), proxy_control=str(state.proxy_control))
    state.write_live(left)
    sweep()
    assert not state.sockets.exists() and not state.folder.exists()


def test_lock_files_go_when_nobody_holds_them() -> None:
    held, _ = take_lock(["target a"])
    dropped, _ = take_lock(["target b"])
    dropped.note(live(KILLED))
    dropped.close()  # as the kernel does for a killed process
    locks = state_root() / "locks"
    assert len(list(locks.iterdir())) == 2
    sweep()
    assert len(list(locks.iterdir())) == 1
    with pytest.raises(Refused):
        take_lock(["target a"])
    held.clear()
    held.close()
    assert list(locks.iterdir()) == []
    again, left = take_lock(["target a"])
    assert left == []
    again.close()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(tmp_path: Path) -> None:
    first, _ = take_lock(["target a"])
    path = next((state_root() / "locks").iterdir())
    late = os.open(path, os.O_RDWR)  # opened before its removal, locked after it: what a slow second drill does
    first.clear()
    first.close()
    fcntl.flock(late, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other, _ = take_lock(["target a"])  # not kept off by a file that has no name
    assert next((state_root() / "locks").iterdir()).stat().st_ino != os.fstat(late).st_ino
    os.close(late)
    other.close()


def test_a_run_folder_tells_whether_its_drill_goes_on(tmp_path: Path) -> None:
    here = tmp_path / "runs" / "r1"
    here.mkdir(parents=True)
    assert live_at(here) is None
    open_state("r1").write_live(msgspec.structs.replace(live("r1"), run_dir=str(here)))
    found = live_at(here)
    assert found is not None and found.pid == os.getpid()
    open_state("r1").write_live(msgspec.structs.replace(live("r1", pid=2**22 + 1), run_dir=str(here)))
    assert live_at(here) is None


def test_the_only_live_run_needs_no_name() -> None:
    open_state("r1").write_live(live("r1"))
    assert find_live(None)[1].run == find_live("r1")[1].run == find_live("/some/runs/r1")[1].run == "r1"


def test_no_run_and_several_runs_are_refused_by_name() -> None:
    with pytest.raises(Refused, match="no live run"):
        find_live(None)
    for run in ("r1", "r2"):
        open_state(run).write_live(live(run))
    with pytest.raises(Refused, match="r1, r2") as refused:
        find_live(None)
    assert refused.value.found == "2 live runs of this account, in /runs"
    with pytest.raises(Refused, match="r3, which is not live"):
        find_live("r3")


def test_stop_without_a_name_goes_to_no_drill_where_an_interview_goes_on_too() -> None:
    open_state("r1").write_live(live("r1"))
    lock, _ = take_lock(["target a"])
    lock.note(msgspec.structs.replace(live("r2"), control=""))
    with pytest.raises(Refused, match="r2, r1") as refused:
        stop_load(None, within_s=0)
    assert refused.value.found == "2 live runs of this account, in /runs"
    lock.clear()
    lock.close()
    assert stop_load(None, within_s=0) is None  # a drill alone is told by its socket


@pytest.mark.e2e
@pytest.mark.parametrize("named", [None, "20261129T153000Z-1a2b"])
def test_where_a_proxy_was_left_no_live_run_says_which_process_has_the_port_and_how_to_end_it(
    named: str | None, short_dir: Path
) -> None:
    control = short_dir / "proxy.sock"
    left = msgspec.structs.replace(live("20261129T153000Z-1a2b", pid=2**22 + 1), proxy_control=str(control))
    lock, _ = take_lock([left.target, "proxy 127.0.0.1:1"])
    lock.note(left)
    lock.close()
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(str(control))
        proxy.listen()
        with pytest.raises(Refused) as refused:
            find_live(named)
        assert f"kill {os.getpid()}" in refused.value.remedy
        assert "still has 127.0.0.1:1:" in refused.value.remedy
        assert refused.value.remedy.count("kill ") == 1  # it holds two locks, and is one proxy
    with pytest.raises(Refused, match="start one"):
        find_live(named)


def test_a_drill_that_goes_on_has_left_nothing() -> None:
    lock, _ = take_lock(["target a"])
    lock.note(live("r1"))
    assert list(left_proxies()) == []
    lock.close()


@pytest.mark.parametrize("stale", [live("old", pid=2**22 + 1), live("old", started=1)])
def test_a_run_whose_process_is_gone_or_another_is_not_live(stale: Live) -> None:
    open_state("old").write_live(stale)
    assert list(live_runs()) == []


def test_a_live_file_that_is_none_is_passed_over() -> None:
    state = open_state("r1")
    (state.folder / "live.json").write_bytes(b'{"run"')
    assert list(live_runs()) == []


def test_a_lock_turns_the_second_away_and_names_the_first() -> None:
    lock, left = take_lock(["target a", "proxy b"])
    assert left == []
    lock.note(live("r1"))
    with pytest.raises(Refused, match=rf"pid {os.getpid()}, run r1"):
        take_lock(["proxy b"])
    other, _ = take_lock(["target c"])
    other.close()
    lock.close()


def test_what_a_killed_holder_left_is_handed_to_the_next() -> None:
    lock, _ = take_lock(["target a", "proxy b"])
    lock.note(live("r1"))
    lock.close()  # as the kernel does for a killed process
    again, left = take_lock(["target a", "proxy b"])
    assert [before.run for before in left] == ["r1"]
    again.clear()
    again.close()
    last, left = take_lock(["target a"])
    assert left == []
    last.close()


def test_a_refused_lock_lets_go_of_what_it_had() -> None:
    held, _ = take_lock(["b"])
    with pytest.raises(Refused):
        take_lock(["a", "b"])
    free, _ = take_lock(["a"])
    free.close()
    held.close()
