"""The samples file: what was written is read, and what a killed writer left is counted."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.evidence.samples import (
    LONG_RECORD,
    MORE,
    OUTCOMES,
    RECORD,
    Sample,
    header,
    pack,
    read_gaps,
    read_samples,
)

whole = st.integers(0, 2**62)
small = st.integers(0, 2**32 - 1)
rows = st.builds(
    Sample, whole, whole, whole, whole, whole, whole, whole, small, small, small, st.integers(-1, 2**31 - 1),
    st.integers(0, 2**31 - 1), st.integers(0, 65_535), st.integers(-1, 599), st.integers(0, len(OUTCOMES) - 1), st.integers(0, 1),
)  # fmt: skip
more = st.tuples(whole, whole, st.integers(0, 2**32 - 1), st.integers(0, 65_535), st.integers(0, 255))


@given(given_rows=st.lists(rows, max_size=20), torn=st.integers(0, RECORD.size - 1))
def test_whole_records_are_read_and_a_torn_tail_is_counted(given_rows: list[Sample], torn: int) -> None:
    data = header(stages=["a"]) + b"".join(pack(*row[:16]) for row in given_rows) + bytes(torn)
    said, columns = read_samples(data)
    assert said["stages"] == ["a"]
    assert [row[:16] for row in columns.rows] == [row[:16] for row in given_rows]
    assert {row[16:20] for row in columns.rows} <= {(0, 0, -1, 0)}
    assert [row.attempts for row in columns.rows] == [int(row.sent_ns > 0) for row in given_rows]
    assert columns.torn_bytes == torn


@given(given_rows=st.lists(st.tuples(rows, more), max_size=20), torn=st.integers(0, LONG_RECORD.size - 1))
def test_records_of_the_second_format_have_five_columns_more(
    given_rows: list[tuple[Sample, tuple[int, int, int, int, int]]], torn: int
) -> None:
    packed = [pack(*row[:16]) + MORE.pack(*tail) for row, tail in given_rows]
    said, columns = read_samples(header(long=True, stages=["a"]) + b"".join(packed) + bytes(torn))
    assert said["fields"] == list(Sample._fields)
    assert columns.rows == [Sample(*row[:16], *tail) for row, tail in given_rows]
    assert columns.torn_bytes == torn


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        b"no json\n",
        b'{"format":"other"}\n',
        header()[:-1],
        b"[1]\n",
        header().replace(b"les-1", b"les-2"),
        header(long=True).replace(b"les-2", b"les-3"),
    ],
)
def test_what_is_no_samples_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"header|format"):
        read_samples(data)


def test_gaps_go_to_their_records_and_end_where_the_file_does() -> None:
    def row(words: int) -> Sample:
        return Sample(0, 0, 0, 0, 0, 0, 0, 0, 0, words, -1, 0, 0, 200, 0, 0)

    these = [row(3), row(0), row(1), row(4)]
    data = array("I", [10, 20, 5, 6, 7]).tobytes()
    assert [(r.words, list(gaps)) for r, gaps in read_gaps(data, these)] == [(3, [10, 20]), (4, [5, 6, 7])]
    assert [list(gaps) for _, gaps in read_gaps(data[:-1], these)] == [[10, 20]]
