"""The fault `bad-gzip`, played by hand."""

import gzip

import pytest

from drillmaster.faults import End, Head, Lost
from tests.faults.streamlab import body_of, play, streamed, whole


@pytest.mark.parametrize("upstream", [whole("openai_chat"), streamed("openai_chat")])
def test_the_answer_is_the_real_one_and_says_that_it_is_gzip(upstream: list[object]) -> None:
    played = play("bad-gzip", upstream)
    assert (played.headers["content-encoding"], played.body) == ("gzip", body_of(upstream))
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(played.body)


@pytest.mark.parametrize("head", [Lost("refused"), Head(200, (("Content-Encoding", "br"),))])
def test_what_is_coded_already_or_lost_is_left_alone(head: object) -> None:
    assert not play("bad-gzip", [head, End()]).met


def test_a_lift_before_the_answer_lets_it_pass() -> None:
    assert play("bad-gzip", whole("openai_chat"), lift_at=0).end == "passed"
