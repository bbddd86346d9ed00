"""The lock of contracts: what is read, what is refused, and how its entries move."""

# ruff: noqa: E501  # a case is one row

import contextlib
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.rules.contract_lock import (
    Lock,
    Pending,
    dropped,
    finalized,
    is_digest,
    path_fault,
    pended,
    read_lock,
    written,
)

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
REVIEW = Pending(sha256=B, previous=A, expires="2026-12-10", reviewer="bea")


def ours(**more: Any) -> dict[str, Any]:
    return {"kind": "contract-lock", "version": 1, "previous": None, "files": {}, "pending": {}, **more}


def review(**more: Any) -> dict[str, Any]:
    return {"sha256": B, "previous": A, "expires": "2026-12-10", "reviewer": "bea", **more}


@pytest.mark.parametrize(
    "value",
    [
        None, [], "x", 1, {}, {"version": 1}, {"version": 2, "files": {}}, {"version": "1", "files": {}}, {"version": 1.0, "files": {}},
        {"version": True, "files": {}}, {"version": 1, "files": None}, {"version": 1, "files": []}, {"version": 1, "files": {"a": None}},
        {"version": 1, "files": {"a": 1}}, {"version": 1, "files": {}, "pending": None}, {"version": 1, "files": {}, "extra": 1},
        {"version": 1, "files": {"../a": A}}, {"version": 1, "files": {"/a": A}}, {"version": 1, "files": {"./a": A}},
        {"version": 1, "files": {"a//b": A}}, {"version": 1, "files": {"a\\b": A}}, {"version": 1, "files": {"": A}},
        {"kind": "lock", "version": 1, "files": {}}, ours(version=2), ours(extra=1), ours(previous="x"), ours(previous=A.upper()),
        ours(files={"a": ""}), ours(files={"a": A.upper()}), ours(files={"a": A[:-1]}), ours(files={"a": "REPLACE_WITH_SHA256"}),
        ours(pending={"a": A}), ours(pending={"a": review(sha256="x")}), ours(pending={"a": review(previous="")}),
        ours(pending={"a": review(sha256=None, previous=None)}), ours(pending={"a": review(force=True)}),
        ours(pending={"a": {"sha256": B}}), ours(pending={"../a": review()}), ours(pending={"a": review(reviewer=None)}),
    ],
)  # fmt: skip  # short rows
def test_a_lock_that_is_none_is_refused_with_its_remedy(value: Any) -> None:
    with pytest.raises(Problem) as told:
        read_lock(json.dumps(value).encode(), place="schema.lock.json")
    assert told.value.remedy and "schema.lock.json" in told.value.place


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"version":1,"version":1,"files":{}}',
        b'{"version":NaN}',
        b"[" * 10_000,
    ],
)
def test_bytes_that_are_no_lock_are_a_problem(data: bytes) -> None:
    with pytest.raises(Problem):
        read_lock(data, place="x")


@given(st.binary(max_size=80))
def test_whatever_the_bytes_are_only_problems_come(data: bytes) -> None:
    with contextlib.suppress(Problem):
        read_lock(data, place="x")


def test_the_articles_lock_is_read_as_it_is() -> None:
    data = b'{"version": 1, "files": {"a.json": "REPLACE_WITH_SHA256"}, "pending": {"a.json": "' + B.encode() + b'"}}'
    lock = read_lock(data, place="x")
    assert lock.article
    assert lock.files == {"a.json": "REPLACE_WITH_SHA256"}
    assert lock.pending["a.json"].sha256 == B
    assert lock.digest == hashlib.sha256(data).hexdigest()


def test_a_lock_that_is_written_reads_as_it_was() -> None:
    gone = Pending(sha256=None, previous=A, expires="2026-12-10", reviewer="bea", second="cyd", reason="v1 has ended")
    lock = Lock(files={"ä.json": A, "a b.json": B}, pending={"z.json": REVIEW, "ä.json": gone}, previous=C)
    again = read_lock(written(lock), place="x")
    assert (again.files, again.pending, again.previous, again.article) == (lock.files, lock.pending, C, False)
    assert written(again) == written(lock)


def test_a_review_is_added_taken_back_and_made_final() -> None:
    base = Lock(files={"a": A, "d": A}, pending={})
    lock = pended(base, "a", REVIEW, over=C)
    assert (lock.pending, lock.previous, lock.files) == ({"a": REVIEW}, C, base.files)
    assert dropped(lock, ("a",), over=C).pending == {}
    gone = Pending(sha256=None, previous=A, expires="2026-12-10", reviewer="bea")
    lock = pended(pended(lock, "d", gone, over=C), "n", REVIEW, over=C)
    made, moved = finalized(lock, {"a": B, "d": "", "n": A}, over=None)
    assert (made.files, moved) == ({"a": B}, ("a", "d"))
    assert set(made.pending) == {"n"}  # other bytes were merged than were reviewed


def test_what_the_article_pended_without_a_reviewer_is_not_taken_over() -> None:
    article = read_lock(json.dumps({"version": 1, "files": {"a": A}, "pending": {"b": B}}).encode(), place="x")
    assert set(pended(article, "a", REVIEW, over=None).pending) == {"a"}


def test_the_articles_lock_stays_one_where_nothing_is_added() -> None:
    data = {"version": 1, "files": {"a": A}, "pending": {"a": B, "c": C}}
    article = read_lock(json.dumps(data).encode(), place="x")
    assert json.loads(written(dropped(article, ("c",), over=C))) == {**data, "pending": {"a": B}}
    made, moved = finalized(article, {"a": B, "c": ""}, over=C)
    assert moved == ("a",)
    assert json.loads(written(made)) == {"version": 1, "files": {"a": B}, "pending": {"c": C}}


@pytest.mark.parametrize("text", [None, "", A.upper(), A + "a", A[:-1], " " + A, "g" * 64, A + "\n", "٣" * 64])
def test_what_is_no_digest(text: str | None) -> None:
    assert not is_digest(text)


@pytest.mark.parametrize("path", ["", "/", "a/", "a//b", "./a", "a/..", "..", "a\0b", "a\\b"])
def test_what_is_no_path(path: str) -> None:
    assert path_fault(path)


def test_what_is_one() -> None:
    assert [path_fault(one) for one in ("a", "a/b.json", "ä/ b", "a/..b", ".a", "a\nb")] == [""] * 6
