"""A seal broken anywhere is named: the file, and the line."""

import itertools

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from drillmaster.evidence import Change, Seal, SealBuilder, SealedFile, check_file, make_seal, seal_head


def sealed(data: bytes) -> SealedFile:
    builder = SealBuilder()
    builder.feed(data)
    return builder.finish()


def changes(before: bytes, after: bytes) -> list[Change]:
    return list(check_file(sealed(before), [after], file="f.jsonl", appended=True).changes)


def lines(count: int) -> list[bytes]:
    return [b'{"event":"e%d"}\n' % n for n in range(1, count + 1)]


def join(parts: list[bytes]) -> bytes:
    return b"".join(parts)


TEN = lines(10)
LONG = lines(2000)


def edited(parts: list[bytes], number: int, *instead: bytes) -> bytes:
    return join([*parts[: number - 1], *instead, *parts[number:]])


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (TEN, edited(TEN, 3, b'{"event":"E3"}\n'), [(3, "altered")]),
        (TEN, edited(TEN, 3), [(3, "dropped")]),
        (TEN, edited(TEN, 1), [(1, "dropped")]),
        (TEN, edited(TEN, 10), [(10, "truncated")]),
        (TEN, edited(TEN, 10, TEN[9][:-1]), [(10, "truncated")]),  # the last newline
        (TEN, edited(TEN, 9, TEN[8][:4])[: -len(TEN[9])], [(9, "truncated")]),
        (TEN, b"", [(1, "truncated")]),
        (TEN, edited(TEN, 3, b"\n", TEN[2]), [(3, "inserted")]),
        (TEN, edited(TEN, 3, TEN[2][:-1], b" \n"), [(3, "altered")]),
        (TEN, edited(TEN, 3, TEN[2][:5], b"\n", TEN[2][5:]), [(3, "altered"), (4, "inserted")]),
        (TEN, edited(TEN, 3, TEN[2][:-1] + b" "), [(3, "altered"), (4, "dropped")]),  # a newline made a blank
        (TEN, join([TEN[1], TEN[0], *TEN[2:]]), [(1, "moved"), (2, "moved")]),
        (TEN, join([*TEN[:2], TEN[7], *TEN[3:7], TEN[2], *TEN[8:]]), [(3, "moved"), (8, "moved")]),
        (LONG, edited(LONG, 1500, b"x\n"), [(1500, "altered")]),
        (LONG, edited(LONG, 1), [(1, "dropped")]),
        (LONG, edited(edited(LONG, 1999).splitlines(keepends=True), 2), [(2, "dropped"), (1999, "dropped")]),
        (LONG, join([*LONG[:9], LONG[1899], *LONG[10:1899], LONG[9], *LONG[1900:]]), [(10, "moved"), (1900, "moved")]),
        (LONG, join([*LONG[:9], b"new\n", *LONG[9:1500], *LONG[1501:]]), [(10, "inserted"), (1501, "dropped")]),
        (LONG, edited(LONG, 256, LONG[255], b"new\n"), [(257, "inserted")]),
        (LONG, edited(edited(LONG, 900).splitlines(keepends=True), 700), [(700, "dropped"), (900, "dropped")]),
    ],
)
def test_what_changed_is_named_by_line(before: list[bytes], after: bytes, named: list[tuple[int, str]]) -> None:
    found = changes(join(before), after)
    assert [(c.line, c.kind) for c in found] == named
    assert all(c.file == "f.jsonl" and c.what for c in found)


def test_a_line_dropped_while_late_ones_follow_is_still_the_one_named() -> None:
    after = edited(TEN, 4) + join(LONG[100:700])
    assert [(c.line, c.kind) for c in changes(join(TEN), after)] == [(4, "dropped")]


def test_a_file_rewritten_whole_names_twenty_lines_and_counts_the_rest() -> None:
    found = changes(join(LONG), join(LONG).upper())
    assert [(c.line, c.kind) for c in found[:20]] == [(n, "altered") for n in range(1, 21)]
    assert (found[20].line, found[20].last_line) == (21, 1024)
    assert len(found) == 21


def test_lines_behind_the_seal_are_late_in_a_file_that_is_appended_to() -> None:
    data = join(TEN)
    check = check_file(sealed(data), [data, b"\n{}\n", b"\n", b"{", b"}\n{}"], file="f.jsonl", appended=True)
    assert check.changes == ()
    assert check.late_lines == 3
    assert check.late_bytes == 10


def test_bytes_behind_the_seal_of_any_other_file_are_a_change() -> None:
    check = check_file(sealed(b"limit: 1\n"), [b"limit: 1\nlimit: 9\n"], file="policy.yaml", appended=False)
    assert [(c.file, c.line, c.kind) for c in check.changes] == [("policy.yaml", 2, "grown")]


def test_a_change_made_to_fit_its_line_checks_is_named_by_block() -> None:
    # Somebody who writes the checks of the seal anew, and not the digests, is found out by the digests.
    forged = LONG.copy()
    forged[299] = b'{"event":"forged"}\n'
    real = sealed(join(LONG))
    seal = SealedFile(real.bytes, real.lines, real.sha256, real.blocks, sealed(join(forged)).checks)
    (found,) = check_file(seal, [join(forged)], file="f", appended=True).changes
    assert (found.line, found.last_line, found.kind) == (257, 512, "altered")


@pytest.mark.parametrize("checks", [(), ("zz",), ("00",), ("-0000001" * 10,)])
def test_a_seal_without_line_checks_still_names_the_block(checks: tuple[str, ...]) -> None:
    real = sealed(join(TEN))
    seal = SealedFile(real.bytes, real.lines, real.sha256, real.blocks, checks)
    found = check_file(seal, [edited(TEN, 3, b"x\n")], file="f", appended=True).changes
    assert found
    assert all(1 <= c.line <= c.last_line <= 10 for c in found)


def test_an_empty_file_is_sealed_as_such() -> None:
    assert (sealed(b"").bytes, sealed(b"").lines, sealed(b"").blocks) == (0, 0, ())
    assert changes(b"", b"") == []


def test_the_block_digests_are_what_sha256_says_of_256_lines() -> None:
    import hashlib

    found = sealed(join(LONG[:600]))
    expected = [join(LONG[:256]), join(LONG[256:512]), join(LONG[512:600])]
    assert list(found.blocks) == [hashlib.sha256(part).hexdigest() for part in expected]
    assert found.sha256 == hashlib.sha256(join(LONG[:600])).hexdigest()
    assert found.lines == 600


def test_the_head_covers_every_field() -> None:
    seal = make_seal({"b": sealed(b"1\n"), "a": sealed(b"2\n")}, sealed_at="2026-11-29T12:00:00Z")
    assert list(seal.files) == ["a", "b"]
    assert seal.head == seal_head(seal)
    for other in (
        Seal(1, "2026-11-29T12:00:01Z", seal.files, seal.head),
        Seal(2, seal.sealed_at, seal.files, seal.head),  # type: ignore[arg-type]  # which no file can say
        Seal(1, seal.sealed_at, {"a": seal.files["a"]}, seal.head),
        Seal(1, seal.sealed_at, {"a": seal.files["b"], "b": seal.files["a"]}, seal.head),
    ):
        assert seal_head(other) != seal.head


# Lines that repeat, blank ones and a last one without its newline: what makes a place ambiguous.
texts = st.lists(st.sampled_from([b"", b"a", b"b", b"c", b"dd", b"\r", b"e" * 40]), min_size=1, max_size=700).flatmap(
    lambda parts: st.sampled_from([b"\n".join(parts), b"\n".join(parts) + b"\n"])
)


@given(texts, st.lists(st.integers(0, 2000), max_size=5))
def test_any_chunking_gives_one_seal(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    builder = SealBuilder()
    for a, b in itertools.pairwise(edges):
        builder.feed(data[a:b])
    assert builder.finish() == sealed(data)


def first_difference(before: bytes, after: bytes) -> set[int]:
    """The line that differs first, and its neighbours: an edited newline belongs to two lines."""
    old, new = before.split(b"\n"), after.split(b"\n")
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return {at, at + 1, at + 2}


@given(texts, st.data())
@example(b"a\na\na\n", None)
def test_one_edit_anywhere_is_reported_at_its_line(data: bytes, draw: st.DataObject | None) -> None:
    assume(data)
    if draw is None:
        after = b"a\na\n"
    else:
        at = draw.draw(st.integers(0, len(data) - 1))
        after = draw.draw(
            st.sampled_from(
                [
                    data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],  # one changed byte
                    data[:at] + data[at + 1 :],  # one dropped byte
                    data[:at] + b"x" + data[at:],  # one byte put in
                    data[:at] + b"\n" + data[at:],
                    data[:at],  # cut short
                ]
            )
        )
    assume(not after.startswith(data))
    found = changes(data, after)
    assert found
    assert min(c.line for c in found) in first_difference(data, after), (found, data, after)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=600), st.data())
def test_one_dropped_or_two_swapped_lines_are_reported_at_their_place(words: list[int], draw: st.DataObject) -> None:
    before = [b"line %d\n" % word for word in words]
    i, j = sorted((draw.draw(st.integers(0, len(words) - 1)), draw.draw(st.integers(0, len(words) - 1))))
    if i != j and before[i] != before[j]:
        after = before.copy()
        after[i], after[j] = before[j], before[i]
        found = changes(join(before), join(after))
        assert [c.line for c in found] == [i + 1, j + 1]
    dropped = changes(join(before), join([*before[:i], *before[i + 1 :]]))
    run_end = i
    while run_end + 1 < len(before) and before[run_end + 1] == before[i]:
        run_end += 1
    assert any(i + 1 <= c.line <= run_end + 1 for c in dropped), (dropped, i, run_end)
