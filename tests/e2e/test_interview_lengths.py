"""Levels that last so long, thresholds that are named before any load, and what is said of a ladder behind it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.interviewlab import Lab, answer, interviewing, server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

POLICY = """\
kind: policy
version: 1
source: thresholds
owner: Bea
review_by: 2099-02-28
gates:
  - gate: interview
    decide: bound
    block_s: 0.02
    cold_max_s: 5
    levels:
      warm_c1: {p95_s: 1, service_p95_s: 1}
      warm_c4: {p95_s: 1, goodput: {slo: {latency_s: 1}, min_ratio: 0.9}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


def test_a_level_lasts_as_long_as_it_is_told_and_what_is_signed_is_said_before(lab: Lab) -> None:
    (lab.folder / "policy.yaml").write_text(POLICY)
    with server(lambda _: (0.02, answer())) as (url, truth):
        done = lab.run(
            url, "--levels", "1,4", "--seconds", "1.3", "--idle", "0", "--timeout", "10", "--policy", "policy.yaml", "--json"
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (
        "what is signed for warm_c1 takes 59 calls over 1.18 s; the plan has 100000 calls in 1.3 s at most"
        in done.stderr
    )
    said = json.loads(done.stdout)
    assert said["knee"]["why"] == "2 levels, and 4 are needed"
    read = lab.read()
    for label, callers in (("warm_c1", 1), ("warm_c4", 4)):
        level = read.interview.level(label)
        assert level is not None
        assert level.calls is not None
        assert 0.6 < max(level.calls.due_s) - min(level.calls.due_s) <= 1.3
        assert not [why for why in level.void if "stopped" in why]
        assert level.n > callers
    assert truth.n == 1 + sum(level.n for level in read.interview.levels) - 1 + 5  # the cold call is a level; 5 warm up
    assert {"seconds": 1.3}.items() <= next(step for step in read.manifest.steps if step["label"] == "warm_c4").items()


def test_so_many_calls_end_a_level_before_its_time(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, _):
        done = lab.run(url, "--levels", "2", "--seconds", "30", "--warm", "40", "--idle", "0", "--timeout", "10")
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c2")
    assert level is not None
    assert level.n == 40
    assert not [why for why in level.void if "stopped" in why]


def test_engines_that_share_a_level_end_it_together(lab: Lab) -> None:
    with server(lambda _: (0.01, answer())) as (url, _):
        done = lab.run(url, "--levels", "4", "--seconds", "1", "--idle", "0", "--timeout", "10", "--processes", "2")
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c4")
    assert level is not None
    assert not [why for why in level.void if "stopped" in why or "records" in why]
    assert level.seconds is not None
    assert level.seconds >= 0.9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--levels", "1"), "warm_c4 has a threshold and was not run"),
        (("--levels", "1,4,8"), "no threshold for warm_c8"),
        (("--levels", "1,4", "--timeout", "1"), "a call is cut before it can be over that"),
    ],
)
def test_thresholds_that_no_run_of_the_plan_can_meet_are_refused_before_any_call(
    lab: Lab, words: tuple[str, ...], said: str
) -> None:
    (lab.folder / "policy.yaml").write_text(POLICY)
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(url, *words, "--idle", "0", "--policy", "policy.yaml")
    assert (done.returncode, truth.n, said in done.stderr) == (2, 0, True), done.stderr
    assert not (lab.folder / "runs").exists()
