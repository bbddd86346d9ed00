"""The law over a made-up alert manager: what it sees of true episodes, against what is true of them."""

from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.rules.alerts import Alert, Injection, Looked, Wanted, match
from drillmaster.verdict import AtLeast, Exact

S = 1_000_000_000
UNTIL_S = 120
WANTED = Wanted(rule="ToolFailures", least="sev2")

Spans = dict[str, list[tuple[int, int]]]
"""Of each alert, when it was on: from, to."""


@st.composite
def spans(draw: st.DrawFn) -> Spans:
    found: Spans = {}
    for key in ("a", "b", "c"):
        edges = sorted(draw(st.sets(st.integers(0, UNTIL_S), max_size=8)))
        found[key] = list(zip(edges[::2], edges[1::2], strict=False))
    return found


def deliveries(on: Spans, every_s: int, repeat: bool) -> list[Alert]:
    """All alerts as one group: at each tick those that fire, and those that have ended since they were last told as firing."""
    told: list[Alert] = []
    firing: dict[str, int] = {}
    for tick in range(0, UNTIL_S + 1, every_s):
        now = {key: start for key, list_ in on.items() for start, end in list_ if start <= tick < end}
        ended = [key for key in firing if key not in now]
        if not ended and not repeat and all(firing.get(key) == start for key, start in now.items()):
            continue
        told += [_alert(tick, key, start, "firing") for key, start in now.items()]
        told += [_alert(tick, key, firing[key], "resolved") for key in ended]
        firing = now
    return told


def _alert(at: int, key: str, start: int, state: str) -> Alert:
    return Alert(
        at_ns=at * S,
        receiver="am",
        rule="ToolFailures",
        severity="sev2",
        state="resolved" if state == "resolved" else "firing",
        key=key,
        starts_ns=start * S,
        starts_wall_ns=start * S,
    )


@given(spans(), st.integers(1, 7), st.booleans(), st.integers(1, UNTIL_S - 1))
@example({"a": [(0, 100)], "b": [], "c": []}, 5, True, 50)  # open all the while, and repeated
@example(
    {"a": [(0, 49), (52, 60)], "b": [], "c": []}, 5, False, 50
)  # ended and begun between two ticks: nobody was told of the end
@example({"a": [(0, 100)], "b": [(51, 100)], "c": []}, 5, False, 50)  # grouped with an old one
@example({"a": [(10, 20), (30, 40), (51, 55), (57, 70)], "b": [], "c": []}, 1, True, 50)  # flaps
def test_the_delay_is_to_the_first_tick_that_tells_of_an_episode_of_after(
    on: Spans, every_s: int, repeat: bool, injected_s: int
) -> None:
    told = deliveries(on, every_s, repeat)
    seen = {(one.key, one.starts_ns, one.at_ns) for one in told if one.state == "firing"}
    after = [at for _, start, at in seen if start is not None and start >= injected_s * S and at >= injected_s * S]
    before = {(key, start) for key, start, _ in seen if start is not None and start < injected_s * S}
    found = match(
        told,
        [],
        Injection(run="R", window="W", injected_ns=injected_s * S),
        WANTED,
        Looked(from_ns=0, until_ns=UNTIL_S * S),
    )
    if after:
        assert found.delay == Exact((min(after) - injected_s * S) / 1e9, n=1)
    else:
        assert found.delay == AtLeast(float(UNTIL_S - injected_s))
    assert {(one.key, one.starts_ns) for one in found.false_positives} == before
    assert len(found.false_positives) == len(before)
