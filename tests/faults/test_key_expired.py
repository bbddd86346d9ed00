"""The fault `key-expired`, played by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


def test_the_key_of_the_time_before_is_dead_for_ever_and_a_new_one_passes() -> None:
    stage = Stage()
    stage.first_seen_ns["old"] = stage.injected_ns - 1
    fault = make("key-expired")
    assert stage.play(fault, key="new").status is None  # the old key need not come first
    for _ in range(3):
        assert stage.play(fault, key="old").status == 401
        stage.clock.advance(1e6)
        assert stage.play(fault, key="new").status is None


def test_where_no_key_was_seen_before_the_first_one_is_the_old_one() -> None:
    stage = Stage()
    fault = make("key-expired")
    assert [stage.play(fault, key=key).status for key in ("a", "b", "a", "c", "b")] == [401, None, 401, None, None]


def test_every_key_that_was_in_use_expires() -> None:
    stage = Stage()
    stage.first_seen_ns |= {"a": 1, "b": 2}
    assert [stage.play(make("key-expired"), key=key).status for key in ("a", "b", "c")] == [401, 401, None]


def test_it_expires_in_the_middle_of_the_window() -> None:
    stage = Stage()
    fault = make("key-expired", {"after_s": 30})
    assert stage.play(fault, key="a").status is None
    stage.clock.advance(29)
    assert stage.play(fault, key="a").status is None
    stage.clock.advance(1)
    assert [stage.play(fault, key=key).status for key in ("b", "a", "b")] == [None, 401, None]


def test_a_request_without_a_key_is_not_authorised() -> None:
    assert Stage().play(make("key-expired"), key=None).status == 401


def test_azure_words_an_expired_credential_apart() -> None:
    assert b"expired" in Stage("azure_openai").play(make("key-expired")).sent


@given(st.lists(st.sampled_from(["old", "new", "newer"]), max_size=30), st.lists(st.integers(0, 10**6), max_size=30))
def test_no_order_of_requests_brings_the_old_key_back_or_kills_a_new_one(keys: list[str], gaps_s: list[int]) -> None:
    stage = Stage()
    stage.first_seen_ns["old"] = 0
    for key, gap_s in zip(keys, gaps_s, strict=False):
        stage.clock.advance(gap_s)
        assert stage.play(make("key-expired"), key=key).status == (401 if key == "old" else None)


@pytest.mark.parametrize("after_s", [-1, float("nan"), float("inf"), "5", True, 1e9])
def test_nonsense_is_refused_by_the_name_of_its_field(after_s: object) -> None:
    with pytest.raises(Problem, match="after_s"):
        make("key-expired", {"after_s": after_s})
