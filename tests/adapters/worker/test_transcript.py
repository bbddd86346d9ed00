"""A worker's transcript stands in a user's request path: it costs little, hurts nothing, and is whole or says that it is not."""

import asyncio
import atexit
import errno
import json
import os
import threading
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker import transcript
from drillmaster.rules.transcripts import LINE_CAP_BYTES, Census
from drillmaster.transcripts import read_census, read_mission

HEADERS = {"X-Drill-Mission": "m1"}


class Disk:
    """A disk that takes what it is told to take."""

    def __init__(self) -> None:
        self.full = False
        self.takes: int | None = None

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.takes is not None:
            data, self.takes = data[: self.takes], None
        return os.write(fd, data)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk) -> Iterator[Path]:
    monkeypatch.setenv("DRILL_TRANSCRIPTS", str(tmp_path / "transcripts"))
    monkeypatch.setenv("DRILL_RUN", "r1")
    lines = transcript._Lines(disk.write)
    monkeypatch.setattr(transcript, "_lines", lines)
    yield tmp_path / "transcripts"
    atexit.unregister(lines._at_exit)
    if lines._open is not None:
        os.close(lines._open.fd)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines() if line]


def census(folder: Path, started: dict[str, int]) -> Census:
    return read_census(folder.parent, None, started, run="r1")


def test_without_a_drill_there_is_one_mission_that_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRILL_TRANSCRIPTS", raising=False)
    monkeypatch.chdir(tmp_path)
    with transcript.mission(HEADERS) as said:
        said.user(b"x")
        call = said.model_request(b"y")
        with said.stream("model_response", call) as stream:
            stream.piece(b"z")
        assert transcript.current() is said
    assert (bool(said), said.id, call, list(tmp_path.iterdir())) == (False, "", "", [])
    assert transcript.mission(HEADERS) is said


@pytest.mark.parametrize(
    "headers",
    [
        {},
        None,
        {"traceparent": "00-a-b-01"},
        {"X-Drill-Mission": ""},
        {"X-Drill-Mission": "../x"},
        {"X-Drill-Mission": "m" * 41},
        "a b",
    ],
)
def test_a_request_that_is_no_mission_leaves_nothing(folder: Path, headers: Any) -> None:
    with transcript.mission(headers) as said:
        said.user(b"x")
    assert not said
    assert not folder.exists()


@pytest.mark.parametrize(
    ("more", "run"),
    [
        ({"X-Drill-Run": "r2"}, "r2"),  # a worker that was there before the drill has last week's environment, or none
        ({"x-drill-run": b" r2 "}, "r2"),
        ({"HTTP_X_DRILL_RUN": "r2"}, "r2"),
        ({"X-Drill-Run": "../r2"}, "r1"),
        ({"X-Drill-Run": ""}, "r1"),
        ({}, "r1"),
    ],
)
def test_the_run_is_the_requests_own_and_else_the_environments(folder: Path, more: dict[str, Any], run: str) -> None:
    with transcript.mission({**HEADERS, **more}) as said:
        said.user(b"x")
    assert {one["run"] for one in lines(folder)} == {run}


def test_headers_of_the_standard_library_are_headers(folder: Path) -> None:
    headers = HTTPMessage()
    headers["X-Drill-Mission"] = "m1"
    headers["Accept"] = "a"
    headers["Accept"] = "b"
    with transcript.mission(headers) as said:
        said.user(b"x", headers=headers)
    (user,) = [one for one in lines(folder) if one["kind"] == "user"]
    assert user["headers"] == [["X-Drill-Mission", "m1"], ["Accept", "a"], ["Accept", "b"]]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Drill-Mission": "m1"}, {"x-drill-mission": "m1"}, {"X-DRILL-MISSION": " m1 "}, {"HTTP_X_DRILL_MISSION": "m1"},
        [(b"accept", b"x"), (b"x-drill-mission", b"m1")], [("X-Drill-Mission", "m1")], "m1",
    ],
)  # fmt: skip  # one case a piece
def test_the_mission_is_found_in_whatever_a_framework_calls_headers(folder: Path, headers: Any) -> None:
    with transcript.mission(headers) as said:
        assert said.id == "m1"


def test_a_whole_mission_is_read_back_as_it_was(folder: Path) -> None:
    with transcript.mission(HEADERS, entry="http") as said:
        said.user({"history": []}, method="POST", url="/agent/mission", headers={"Content-Type": "application/json"})
        call = said.model_request({"model": "m"}, url="http://127.0.0.1:1/v1/chat/completions")
        with said.stream("model_response", call, status=200) as stream:
            stream.piece(b"caf\xc3")
            stream.piece(b"\xa9")
        tool = said.tool_call("refund", {"order": 17})
        said.tool_result(tool, {"refunded": 20})
        said.answer("done", status=200)
    assert census(folder, {"m1": 1}).lacking == ()
    found = read_mission(folder.parent, None, "m1", run="r1")
    assert found is not None
    assert [(one.kind, one.seq) for one in found.entries] == [
        ("started", 0), ("user", 1), ("model_request", 2), ("model_response", 3), ("tool_call", 4), ("tool_result", 5),
        ("answer", 6), ("ended", 7),
    ]  # fmt: skip  # pairs
    assert (found.defects, found.parts[0].ok) == ((), True)
    entries = {one.kind: one for one in found.entries}
    assert entries["user"].body == b'{"history":[]}'
    assert entries["user"].fields == {
        "method": "POST", "url": "/agent/mission", "headers": [["Content-Type", "application/json"]],
    }  # fmt: skip  # one value
    assert (entries["model_response"].body, [data for _, data in entries["model_response"].pieces]) == (
        b"caf\xc3\xa9",
        [b"caf\xc3", b"\xa9"],
    )
    assert entries["tool_call"].fields == {"call": "t2", "tool": "refund", "arguments": {"order": 17}}
    assert entries["tool_result"].fields == {"call": "t2", "ok": True, "result": {"refunded": 20}}


def test_what_is_raised_goes_on_and_the_part_ends_badly(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), transcript.mission(HEADERS) as said:
        said.user(b"x")
        _ = 1 // 0
    assert [(one["kind"], one.get("ok")) for one in lines(folder)] == [
        ("started", None),
        ("user", None),
        ("ended", False),
    ]
    assert census(folder, {"m1": 1}).complete == 1


@pytest.mark.parametrize(("status", "ok"), [(200, True), (404, True), (500, False), (503, False)])
def test_an_answer_of_500_or_more_ends_badly(folder: Path, status: int, ok: bool) -> None:
    with transcript.mission(HEADERS) as said:
        said.answer(b"x", status=status)
    assert lines(folder)[-1]["ok"] is ok


def test_behind_the_end_nothing_is_written(folder: Path) -> None:
    with transcript.mission(HEADERS) as said:
        said.user(b"x")
        said.end()
        said.end(ok=False)
        said.answer(b"late")
    assert [one["kind"] for one in lines(folder)] == ["started", "user", "ended"]


def test_a_long_body_goes_on_in_lines_that_are_short_enough(folder: Path) -> None:
    body = "".join(chr(32 + n % 90) + ("\u20ac" if n % 7 == 0 else "\x01") for n in range(120_000))
    with transcript.mission(HEADERS) as said:
        said.user(body)
        said.answer(bytes(range(256)) * 900)
        with said.stream("answer") as stream:
            stream.piece(b"y" * 200_000)
            for _ in range(5_000):
                stream.piece(b"z")
    for path in folder.iterdir():
        assert max(len(line) for line in path.read_bytes().splitlines(keepends=True)) <= LINE_CAP_BYTES
    assert census(folder, {"m1": 1}).lacking == ()
    found = read_mission(folder.parent, None, "m1", run="r1")
    assert found is not None
    kept = [one.body for one in found.entries if one.kind in ("user", "answer")]
    assert kept == [body.encode(), bytes(range(256)) * 900, b"y" * 200_000 + b"z" * 5_000]


def test_what_is_over_the_cap_is_counted(folder: Path) -> None:
    with transcript.mission(HEADERS) as said:
        said.user(b"x" * (5 << 20))
    found = read_mission(folder.parent, None, "m1", run="r1")
    assert found is not None
    user = next(one for one in found.entries if one.kind == "user")
    assert (len(user.body or b""), user.fields["clipped_bytes"]) == (4 << 20, 1 << 20)


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        10**400,
        {1: 2},
        {(1,): 2},
        "\ud800",
        {"\ud800": 1},
        Hostile(),
        {"x": Hostile()},
        b"\xff",
        [[[]]] * 3,
        object,
    ],
)
def test_a_value_that_json_has_no_word_for_hurts_nobody(folder: Path, value: Any) -> None:
    with transcript.mission(HEADERS) as said:
        said.user(value)
        said.tool_call("refund", value, note=value)
    assert census(folder, {"m1": 1}).lacking == ()


def test_a_field_that_is_called_as_one_of_ours_gets_another_name(folder: Path) -> None:
    with transcript.mission(HEADERS) as said:
        said.user(b"x", seq=9, kind="answer", run="r9", mission="m9", more=True, lines=3, t="now")
    (user,) = [one for one in lines(folder) if one["kind"] == "user"]
    assert (user["seq_"], user["kind_"], user["run_"], user["mission_"], user["more_"]) == (
        9,
        "answer",
        "r9",
        "m9",
        True,
    )
    assert census(folder, {"m1": 1}).lacking == ()


def test_many_threads_write_many_missions_and_one_mission_together(folder: Path) -> None:
    def work(name: str) -> None:
        for _ in range(3):
            with transcript.mission(name) as said:
                said.user(b"x" * 300)
                said.answer(b"y")

    def speak() -> None:
        for _ in range(50):
            shared.user(b"z")

    with transcript.mission("shared") as shared:
        threads = [threading.Thread(target=work, args=(f"m{n}",)) for n in range(20)]
        threads += [threading.Thread(target=speak) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = census(folder, {**{f"m{n}": 3 for n in range(20)}, "shared": 200})
    assert (found.lacking, found.complete, found.spoilt) == ((), 21, 0)


def test_each_task_has_its_own_mission(folder: Path) -> None:
    async def serve(name: str) -> None:
        with transcript.mission(name) as said:
            said.user(b"x")
            await asyncio.sleep(0)
            assert transcript.current() is said
            transcript.current().answer(name)

    async def main() -> None:
        await asyncio.gather(*(serve(f"m{n}") for n in range(50)))
        assert not transcript.current()

    asyncio.run(main())
    assert census(folder, {f"m{n}": 1 for n in range(50)}).complete == 50


def test_a_full_disk_hurts_no_request_and_the_losses_are_told(
    folder: Path, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    with transcript.mission("m1") as said:
        said.user(b"x")
        disk.full = True
        said.answer(b"lost")
    with transcript.mission("m2") as said:
        said.user(b"lost too")
        disk.full = False
    with transcript.mission("m3") as said:
        said.user(b"x")
    found = census(folder, {"m1": 1, "m2": 1, "m3": 1})
    assert [(one.mission, one.why) for one in found.lacking] == [("m1", "no-end"), ("m2", "gap")]
    assert found.lost == 4
    assert capsys.readouterr().err.count("full disk") == 1


def test_a_line_of_which_the_disk_took_a_part_is_written_again(folder: Path, disk: Disk) -> None:
    with transcript.mission("m1") as said:
        disk.takes = 30
        said.user(b"x")
    found = census(folder, {"m1": 1})
    assert (found.lacking, found.spoilt, found.lost) == ((), 1, 0)


def test_a_folder_that_cannot_be_is_said_once_and_nothing_is_raised(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("DRILL_TRANSCRIPTS", str(tmp_path / "file" / "under"))
    for _ in range(3):
        with transcript.mission(HEADERS) as said:
            said.user(b"x")
    err = capsys.readouterr().err
    assert err.count("drillmaster.transcript") == 1
    assert "DRILL_TRANSCRIPTS" in err


def test_a_forked_child_tells_nothing_of_its_parents_mission_and_has_a_file_of_its_own(folder: Path) -> None:
    with transcript.mission("m1") as said:
        said.user(b"x")
        child = os.fork()
        if not child:
            try:
                said.answer(b"not mine")
                with transcript.mission("m2") as own:
                    own.user(b"mine")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    found = census(folder, {"m1": 1, "m2": 1})
    assert (found.lacking, found.files) == ((), 2)


def test_a_worker_that_does_not_know_its_run_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DRILL_RUN")
    with transcript.mission(HEADERS) as said:
        said.user(b"x")
    assert [one.why for one in census(folder, {"m1": 1}).lacking] == ["another-run"]
    assert "DRILL_RUN" in capsys.readouterr().err


def test_no_secret_is_in_the_file_wherever_it_was_said(folder: Path) -> None:
    secret = "sk-ant-" + "api03-Zq81mNvXw27LpTd5"
    with transcript.mission(HEADERS) as said:
        said.user(
            f"use {secret}",
            url=f"/x?key={secret}",
            headers={"Authorization": f"Bearer {secret}", "X-Note": secret},
            note=secret,
        )
        call = said.model_request({"messages": [{"content": secret}]}, url=f"http://u:{secret}@127.0.0.1/")
        with said.stream("model_response", call, headers=[("set-cookie", f"a={secret}")]) as stream:
            stream.piece(secret[:9].encode())
            stream.piece(secret[9:].encode())
        tool = said.tool_call("refund", {"api_key": "hunter2hunter2", "nested": [{"Cookie": f"a={secret}"}], secret: 1})
        said.tool_result(tool, {"password": 12345678}, error=f"no: {secret}")
        said.answer(b"\xff" + secret.encode())
    text = "".join(path.read_text() for path in folder.iterdir())
    for gone in (secret, secret[9:], "hunter2hunter2", "12345678"):
        assert gone not in text
    assert census(folder, {"m1": 1}).lacking == ()
