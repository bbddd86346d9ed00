"""The fault `stall`, played by hand."""

from tests.faults.streamlab import body_of, play, streamed


def test_it_waits_for_good_with_half_of_the_answer_sent() -> None:
    upstream = streamed("anthropic")
    played = play("stall", upstream, dialect="anthropic", after_events=3)
    assert (played.end, played.waits, played.body) == ("stuck", [None], body_of(upstream[:5]))


def test_after_the_lift_the_rest_comes() -> None:
    upstream = streamed("openai_chat")
    # One read and one send for the head and for each of two events, and the read of the third: then it waits.
    played = play("stall", upstream, after_events=2, lift_at=7)
    assert (played.end, played.waits, played.body) == ("end", [None], body_of(upstream))
