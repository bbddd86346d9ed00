"""What a foreign writer left of secrets is covered where it stands; what was screened before keeps every byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.transcripts.covering import cover, cover_line
from drillmaster.transcripts.reading import read_mission

KEY = "sk-ant-" + "api03-Zq81mNvXw27LpTd5"
T = "2026-12-01T08:00:00.000Z"


def line(seq: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"t": T, "mission": "m1", "run": "r1", "seq": seq, "kind": kind, **more}


def folder(tmp_path: Path, *said: dict[str, Any], ascii_: bool = True) -> Path:
    (tmp_path / "transcripts").mkdir()
    text = "".join(json.dumps(one, ensure_ascii=ascii_) + "\n" for one in said)
    (tmp_path / "transcripts" / "node.ndjson").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("ascii_", [True, False])
def test_what_looks_like_a_secret_is_covered_where_it_stands(tmp_path: Path, ascii_: bool) -> None:
    run = folder(
        tmp_path,
        line(0, "started"),
        line(1, "user", body=json.dumps({"text": f"use {KEY} for caf\u00e9", "password": "hunter2hunter2"})),
        line(
            2,
            "tool_call",
            tool="refund",
            arguments={"api_key": "qwertz99", "pin": 17},
            headers=[["Authorization", f"Bearer {KEY}"]],
        ),
        line(
            3,
            "answer",
            chunks=[
                [0, "data: " + json.dumps({"content": KEY[:9]}) + "\n\n"],
                [1.5, "data: " + json.dumps({"content": KEY[9:]}) + "\n\n"],
            ],
        ),
        line(4, "answer", chunks=[[0, KEY[:9]], [1e1, KEY[9:]], [12, " done"]]),
        line(5, "ended", lines=6, ok=True),
        ascii_=ascii_,
    )
    path = run / "transcripts" / "node.ndjson"
    before = path.read_bytes()
    assert (cover(run).lines, cover(run).covered) == (6, 0)
    after = path.read_bytes()
    assert len(after) == len(before)
    for gone in (KEY, KEY[9:], "hunter2hunter2", "qwertz99"):
        assert gone.encode() not in after
    found = read_mission(run, None, "m1", run="r1")
    assert found is not None
    assert (found.defects, [one.kind for one in found.entries]) == (
        (),
        ["started", "user", "tool_call", "answer", "answer", "ended"],
    )
    entries = list(found.entries)
    assert json.loads(entries[1].body or b"")["text"] == f"use {'*' * len(KEY)} for caf\u00e9"
    assert entries[2].fields["arguments"] == {"api_key": "********", "pin": 17}
    assert entries[4].pieces[2] == (12.0, b" done")


@settings(max_examples=150)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(0, 10**9)
        | st.text(max_size=20)
        | st.sampled_from([KEY, f'x"{KEY}"', "a\\", "Cookie: a=b\\"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["password", "a", "body", "token", "chunks"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_a_covered_line_is_the_same_json_but_for_letters(value: Any) -> None:
    text = json.dumps({"value": value, "api_key": 12345678}).encode()
    clean = cover_line(text)
    assert len(clean) == len(text)
    assert KEY.encode() not in clean
    assert _shape(json.loads(clean)) == _shape(json.loads(text))


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [_shape(inner) for inner in value.values()]
    return [_shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


def test_lines_that_were_screened_keep_every_byte(tmp_path: Path) -> None:
    run = folder(tmp_path, line(0, "started"), line(1, "user", body="use " + "*" * 30, url="/x?key=***"))
    before = (run / "transcripts" / "node.ndjson").read_bytes()
    assert cover(run).covered == 0
    assert (run / "transcripts" / "node.ndjson").read_bytes() == before


def test_no_folder_is_nothing_to_cover(tmp_path: Path) -> None:
    assert cover(tmp_path).files == 0
