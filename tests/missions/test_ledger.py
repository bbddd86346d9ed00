"""What the driver writes: concurrency over time, and payloads with nothing in them that is a secret."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drillmaster.friday.missions import read_missions
from drillmaster.missions.flows import MissionPlans, recorded
from drillmaster.missions.ledger import Flying, Ledger

_KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e"
_MISSIONS = f"""
kind: missions
data:
  user: {{make: uuid}}
  head: {{make: sequence, of: [on, sk, it]}}
  tail: {{make: sequence, of: ["y of order", "{_KEY[8:]}", "ies"]}}
flows:
  - name: pieces
    steps:
      - {{path: /ok, json: {{user: "{{{{ user }}}}", said: "{{{{ head }}}}-live-{{{{ tail }}}}"}}}}
"""


def test_what_a_table_and_a_template_put_together_is_covered_each_time(tmp_path: Path) -> None:
    missions = read_missions(_MISSIONS.encode(), place="missions.yaml")
    plans = MissionPlans(missions, nth_load=0, seed=1, run="r-ab12", time_limit_s=9, environ=None)
    ledger = Ledger(str(tmp_path / "m.jsonl"), str(tmp_path / "p.ndjson"), 0)
    for number in range(1, 13):
        drawn = plans.draw(number)
        ledger.payload(drawn, recorded(drawn))
    ledger.close()
    lines = [json.loads(line) for line in (tmp_path / "p.ndjson").read_bytes().splitlines()]
    assert len(lines) == 12
    said = [json.loads(line["requests"][0]["body"])["said"] for line in lines]
    assert [said[0], said[2], said[3]] == ["on-live-y of order", "it-live-ies", "on-live-y of order"]
    assert all(len(text) == len(_KEY) and "****" in text for text in said[1::3])
    assert _KEY[8:] not in (tmp_path / "p.ndjson").read_text()


@given(
    steps=st.lists(st.tuples(st.sampled_from([1, -1]), st.integers(1, 10**9)), min_size=1, max_size=30),
    tail=st.integers(1, 10**9),
)
def test_what_was_held_is_the_area_under_it(steps: list[tuple[int, int]], tail: int) -> None:
    flying = Flying(0)
    at_ns = now = area = 0
    seen = [0]
    for by, after_ns in steps:
        area += now * after_ns
        at_ns += after_ns
        now += by
        seen.append(now)
        flying.change(by, at_ns)
    area += now * tail
    told = flying.told(at_ns + tail)
    assert abs(told["mean"] - area / (at_ns + tail)) < 0.001
    assert (told["in_flight"], told["low"], told["high"]) == (now, min(seen), max(seen))
    assert told["span_ns"] == at_ns + tail


def test_each_telling_begins_anew() -> None:
    flying = Flying(0)
    flying.change(1, 0)
    flying.change(1, 500)
    assert flying.told(1_000)["mean"] == 1.5
    again = flying.told(2_000)
    assert (again["mean"], again["low"], again["high"]) == (2.0, 2, 2)


def test_a_change_that_is_told_late_counts_from_when_it_was() -> None:
    flying = Flying(0)
    flying.change(1, 100)
    flying.change(1, 300)
    flying.change(-1, 200)  # read later than the one before, and happened earlier
    assert flying.told(1_000)["mean"] == (1 * 100 + 0 * 100 + 1 * 700) / 1_000
