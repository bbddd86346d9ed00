"""Two thousand streams at once on one core, each with a fault of its own: nothing kept back, nothing piled up, the same fates."""

from collections import Counter

import pytest

from tests.e2e.streamlab import RULES, Result, many

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

STREAMS, PER_S, EVENTS = 2_000, 5.0, 20

# What a stream looks like to its client by the rule that acted on it: words, [DONE], a finish reason, how it ended.
LOOKS = {
    "stall": (4, False, False, ""),
    "ping": (4, False, False, ""),
    "cut": (5, False, False, "fin"),
    "clean": (5, False, False, "end"),
    "rst": (5, False, False, "rst"),
    "error": (5, False, False, "end"),
    "twice": (EVENTS + EVENTS // 2, True, True, "end"),
    "last": (EVENTS, False, True, "end"),
    "slow": (EVENTS, True, True, "end"),
    None: (EVENTS, True, True, "end"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Result]:
    """The same streams and the same seed, arriving in two orders."""
    return (
        many(tmp_path_factory.mktemp("first"), streams=STREAMS, per_s=PER_S, events=EVENTS, order_seed=1),
        many(tmp_path_factory.mktemp("second"), streams=STREAMS, per_s=PER_S, events=EVENTS, order_seed=2),
    )


def test_every_stream_looks_as_its_own_fault_says(runs: tuple[Result, Result]) -> None:
    for run in runs:
        assert len(run.reads) == STREAMS
        wrong = Counter[str]()
        for number, read in run.reads.items():
            rule = run.fates.get(number, (None,))[-1]
            if rule == "split":  # pieces of 64 bytes may cut a stamp in two
                ok = (read.done, read.stopped, read.end) == (True, True, "end") and read.words > EVENTS // 2
            else:
                ok = (read.words, read.done, read.stopped, read.end) == LOOKS[rule]
            wrong[f"{rule} {read.words} {read.done} {read.stopped} {read.end!r}"] += not ok
        assert +wrong == Counter()


def test_fates_are_those_of_the_seed_in_any_order(runs: tuple[Result, Result]) -> None:
    # `slow` acts where a word came early, which is no lot.
    first, second = ({n: f for n, f in run.fates.items() if f != ("slow",)} for run in runs)
    assert first == second
    met = Counter(rule for fate in first.values() for rule in fate)
    left = float(STREAMS)
    for rule in RULES[:-1]:  # each takes its share of what those before have left
        expected = left * float(rule["share"])
        assert abs(met[str(rule["name"])] - expected) < 5 * expected**0.5, (rule["name"], met)
        left -= expected


def test_words_pass_as_they_come_and_nothing_piles_up(runs: tuple[Result, Result]) -> None:
    for run in runs:
        assert run.lag_ms(0.5) < 1_000 / PER_S, "half the words came later than the ones after them were sent"
        before_mb, after_mb = run.rss_mb
        assert after_mb - before_mb < 12
        assert after_mb < 100
