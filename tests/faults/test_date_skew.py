"""The fault `date-skew`, played by hand."""

import pytest

from drillmaster.faults import Data, End, Head
from drillmaster.rules.retry_after import parse_http_date
from tests.faults.streamlab import body_of, play, streamed, whole


@pytest.mark.parametrize("skew_s", [-86_400, 3_600])
@pytest.mark.parametrize("upstream", [whole("openai_chat"), streamed("anthropic")])
def test_the_date_is_off_and_nothing_else(skew_s: int, upstream: list[object]) -> None:
    played = play("date-skew", upstream, skew_s=skew_s)
    assert parse_http_date(played.headers["date"], now_s=1_700_000_000) == 1_700_000_000 + skew_s
    assert (played.body, played.met) == (body_of(upstream), True)


def test_there_is_one_date() -> None:
    upstream = [Head(200, (("Date", "Tue, 14 Nov 2023 22:13:20 GMT"), ("content-length", "2"))), Data(b"ok"), End()]
    played = play("date-skew", upstream, skew_s=1)
    assert played.headers == {"content-length": "2", "date": "Tue, 14 Nov 2023 22:13:21 GMT"}


def test_a_lift_before_the_answer_lets_it_pass() -> None:
    assert play("date-skew", whole("openai_chat"), skew_s=1, lift_at=0).end == "passed"
