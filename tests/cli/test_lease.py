"""`drillmaster lease`: an operator asks the guard that workers ask, and all of it is in the log."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from drillmaster.cli import main
from drillmaster.stores.opening import open_store

GUARDS = """\
kind: guards
version: 1
source: docs/runbooks/export-lock.md
owner: exports@example.com
reviewers: [bea@example.com]
review_by: 2126-06-30
guards:
  - guard: lease
    name: export
    lease: nightly-export
    ttl_ms: 30000
    may_steal: [bea@example.com]
  - {guard: quota, partner: acme, identity: prod, window_ms: 60000, max_per_window: 30, burst: 5}
"""


class Desk:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._store = f"sqlite:{folder / 'store.db'}"
        self._guards = folder / "guards.yaml"
        self._guards.write_text(GUARDS)
        store = open_store(self._store, within_s=5)
        store.prepare()
        store.close()

    def __call__(self, *words: str) -> tuple[int, str, str]:
        more = ["--store", self._store]
        if words[0] in ("acquire", "steal", "release"):
            more += ["--guards", str(self._guards)]
        with pytest.raises(SystemExit) as done:
            main(argv=["lease", *words, *more])
        out, err = self._capsys.readouterr()
        assert isinstance(done.value.code, int)
        return int(done.value.code), out, err

    def json(self, *words: str) -> tuple[int, Any]:
        code, out, _ = self(*words, "--json")
        return code, json.loads(out)


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


def test_what_nobody_held_is_said_to_be_so(desk: Desk) -> None:
    assert desk("list") == (0, "nobody has ever held one\n", "")
    assert desk("show", "nightly-export", "--item", "t7") == (1, "nobody has ever held nightly-export/t7\n", "")
    assert desk.json("list") == (0, [])
    assert desk.json("log") == (0, [])


def test_it_is_acquired_seen_and_released(desk: Desk) -> None:
    code, told = desk.json("acquire", "export", "--by", "ann")
    assert (code, told["reason"], told["lasts_ms"]) == (0, "granted", 30_000)
    code, out, _ = desk("acquire", "export", "--by", "ben")
    assert (code, out) == (1, "held: Somebody else holds it.\n")
    code, (row,) = desk.json("show", "nightly-export")
    assert code == 0
    assert (row["state"], row["by"], row["token"], row["holder"]) == (
        "held",
        "ann",
        told["fencing_token"],
        told["holder"],
    )
    assert desk("release", "export", "--by", "ann", "--token", "5", "--holder", told["holder"])[0] == 1
    words = ("release", "export", "--by", "ann", "--token", told["fencing_token"], "--holder", told["holder"])
    assert desk(*words)[:2] == (0, "released: The asker holds it no longer.\n")
    assert desk("show", "nightly-export")[0] == 1
    assert desk("list")[1].startswith("nightly-export: released, by ann, ")


def test_who_steals_is_in_the_file_and_each_attempt_in_the_log(desk: Desk) -> None:
    _, told = desk.json("acquire", "export", "--by", "ann", "--item", "t7")
    words = ("steal", "export", "--item", "t7", "--token", told["fencing_token"])
    assert desk(*words, "--by", "ann")[:2][0] == 1
    assert desk("steal", "export", "--item", "t7", "--token", "５", "--by", "bea@example.com")[1].startswith(
        "token-unusable"
    )
    code, stolen = desk.json(*words, "--by", "bea@example.com")
    assert (code, stolen["reason"]) == (0, "stolen") and int(stolen["fencing_token"]) > int(told["fencing_token"])
    _, log = desk.json("log", "nightly-export", "--item", "t7")
    assert [(row["by"], row["action"], row["allowed"], row["reason"]) for row in log] == [
        ("ann", "acquire", True, "granted"),
        ("ann", "steal", False, "steal-not-permitted"),
        ("bea@example.com", "steal", True, "stolen"),
    ]
    assert [row["token"] for row in log] == [told["fencing_token"], "", stolen["fencing_token"]]
    assert desk.json("log", "nightly-export")[1] == []
    assert len(desk("log", "--last", "2")[1].splitlines()) == 2
    assert " no  ann (" in desk("log")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("acquire", "nightly", "--by", "ann"), "name one of export"),
        (("acquire", "quota", "--by", "ann"), "name one of export"),
        (("acquire", "export"), "--by"),
        (("steal", "export", "--by", "bea@example.com"), "--token"),
    ],
)
def test_what_cannot_be_asked_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    code, _, err = desk(*words)
    assert code == 2 and said in err


def test_a_name_that_acts_on_a_terminal_gets_no_lease(desk: Desk) -> None:
    assert desk("acquire", "export", "--by", "ann\x1b[2J")[:2][0] == 1
    assert desk.json("log")[1] == []


def test_a_store_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("list",), ("log",), ("show", "x")):
        with pytest.raises(SystemExit) as done:
            main(argv=["lease", *words, "--store", f"sqlite:{tmp_path / 'none.db'}"])
        assert done.value.code == 2
        said = capsys.readouterr().err
        assert "none.db" in said and "drillmaster store prepare" in said
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_reads_like_a_line_of_the_log_stands_in_quotes(desk: Desk) -> None:
    forged = "bea@example.com (9f2c) steal nightly-export: stolen"
    desk("acquire", "export", "--by", forged, "--item", "a/b")
    code, out, _ = desk("log")
    assert code == 0 and f'"{forged}" (' in out and 'acquire nightly-export/"a/b": granted' in out
    assert f'by "{forged}", holder ' in desk("list")[1]


def test_who_holds_what_is_told_while_somebody_writes(desk: Desk, tmp_path: Path) -> None:
    assert desk("acquire", "export", "--by", "w")[0] == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as db:
        db.execute("UPDATE drillmaster_clock SET seen_us = seen_us - 10000000")  # a question would set it
        db.execute("BEGIN IMMEDIATE")
        assert "nightly-export: held" in desk("list")[1]
        db.execute("ROLLBACK")
