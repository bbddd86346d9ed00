"""The samples file: what was written is read, and what a killed writer left is counted."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.evidence.samples import OUTCOMES, RECORD, Sample, header, pack, read_gaps, read_samples

whole = st.integers(0, 2**62)
small = st.integers(0, 2**32 - 1)
rows = st.builds(
    Sample, whole, whole, whole, whole, whole, whole, whole, small, small, small, st.integers(-1, 2**31 - 1),
    st.integers(0, 2**31 - 1), st.integers(0, 65_535), st.integers(-1, 599), st.integers(0, len(OUTCOMES) - 1), st.integers(0, 1),
)  # fmt: skip


@given(given_rows=st.lists(rows, max_size=20), torn=st.integers(0, RECORD.size - 1))
def test_whole_records_are_read_and_a_torn_tail_is_counted(given_rows: list[Sample], torn: int) -> None:
    data = header(stages=["a"]) + b"".join(pack(*row) for row in given_rows) + bytes(torn)
    said, columns = read_samples(data)
    assert said["stages"] == ["a"]
    assert columns.rows == given_rows
    assert columns.torn_bytes == torn


@pytest.mark.parametrize("data", [b"", b"{}\n", b"no json\n", b'{"format":"other"}\n', header()[:-1], b"[1]\n"])
def test_what_is_no_samples_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"header|format"):
        read_samples(data)


def test_gaps_go_to_their_records_and_end_where_the_file_does() -> None:
    def row(words: int) -> Sample:
        return Sample._make([0] * 9 + [words, -1, 0, 0, 200, 0, 0])

    these = [row(3), row(0), row(1), row(4)]
    data = array("I", [10, 20, 5, 6, 7]).tobytes()
    assert [(r.words, list(gaps)) for r, gaps in read_gaps(data, these)] == [(3, [10, 20]), (4, [5, 6, 7])]
    assert [list(gaps) for _, gaps in read_gaps(data[:-1], these)] == [[10, 20]]
