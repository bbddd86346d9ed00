"""A whole Friday drill whose missions are full of secrets: none of them is in its folder, its state, its pages or its exports."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fridaylab import SECRET, Friday
from tests.e2e.secretlab import SECRETS, find, spread

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

HEADERS = {
    "Authorization": ("Bearer ${PLANTED_BEARER}", "bearer"),
    "X-Api-Key": ("${PLANTED_KEY}", "api key field"),
    "Cookie": ("session=${PLANTED_COOKIE}", "cookie"),
}
# A missions file with a secret in it is refused; so these come in pieces that say nothing, and are put together when they are sent.
SIZE = 3
PIECES = [[sentence[at : at + SIZE] for at in range(0, len(sentence), SIZE)] for _, sentence in spread()]
MOST = max(map(len, PIECES))
TOLD = "".join(f"{{{{ p{n} }}}}" for n in range(MOST))
BODY = {
    "user_id": "{{ user }}",
    "history": [{"role": "user", "content": "I want $20 back for order #{{ order }}. " + TOLD}],
    "metadata": {"note": TOLD},
}
STEP = {"name": "ask", "json": BODY, "expect": {"pointer": "/answer", "min_chars": 1}}
FIELDS = {name: value for name, (value, _) in HEADERS.items()}
MISSIONS = {
    "kind": "missions",
    "version": 1,
    "data": {
        "user": {"make": "uuid"},
        "order": {"make": "integer", "low": 1000, "high": 9999},
        "said": {
            "make": "table",
            "columns": [f"p{n}" for n in range(MOST)],
            "rows": [[*pieces, *[""] * (MOST - len(pieces))] for pieces in PIECES],
        },
    },
    "flows": [
        {"name": "incident", "weight": 3, "headers": FIELDS, "steps": [{**STEP, "path": "/agent/mission"}]},
        {"name": "talk", "entry": "websocket", "path": "/agent/mission/ws", "headers": FIELDS, "steps": [STEP]},
    ],
}


@pytest.fixture
def friday(tmp_path: Path) -> Iterator[Friday]:
    made = Friday(tmp_path, concurrent=12, phases=(3, 5, 3), kill="{capability: refund, for_s: 2}")
    made.env |= {
        "PLANTED_BEARER": SECRETS["bearer"],
        "PLANTED_KEY": SECRETS["api key field"],
        "PLANTED_COOKIE": SECRETS["cookie"],
        "OPENAI_API_KEY": SECRETS["openai"],
        "ANTHROPIC_API_KEY": SECRETS["anthropic"],
    }
    (tmp_path / "missions.yaml").write_text(json.dumps(MISSIONS))
    yield made
    made.clear()


def test_no_planted_secret_is_in_any_artefact_of_a_friday_drill(friday: Friday) -> None:
    code, out, err = friday.run("--rehearsal")
    assert code in (0, 1, 2), out + err
    assert (friday.path / "seal.json").exists(), out + err
    printed = friday.folder / "printed"
    printed.mkdir()
    (printed / "run.txt").write_text(out + err)
    run = str(friday.path)
    listed = json.loads(friday.verb("transcript", "list", run, "--json")[1].splitlines()[0])
    assert listed["expected"] > 2 * len(SECRETS)
    assert (listed["complete"], listed["spoilt"]) == (listed["expected"], 0)
    mission = listed["missions"][0]["mission"]
    for number, words in enumerate(
        [
            ["transcript", "show", run, mission, "--full"],
            ["transcript", "show", run, listed["missions"][-1]["mission"], "--json"],
            ["replay", mission, "--run", run, "--url", "http://127.0.0.1:9"],
            ["gate", "matrix", run, "--policy", "drill-matrix.yaml", "--json"],
            ["verify", run, "--json"],
            ["history", "--json"],
            ["history", "--ndjson", "--read-only"],
            ["history", "metrics", "--read-only"],
            ["evidence", run, "--json"],
            *(["report", run, "--format", form] for form in ("html", "json", "markdown", "junit", "sarif")),
        ]
    ):
        (printed / f"{number}.txt").write_text(friday.verb(*words)[1])
    held = [friday.folder / "runs", friday.folder / "state", printed]
    # The book of flows lies there as it was written: in pieces, which this test makes and no search of pieces is fooled by.
    found = [one for one in find(*(path for path in held if path.exists())) if "missions.json: " not in one]
    assert found == []
    assert find(friday.folder / "runs", printed, secrets={"alert": SECRET}) == []
    # and what is no secret is there, so that the search had something to search in
    text = b"".join(path.read_bytes() for path in (friday.path / "transcripts").iterdir())
    assert text.count(b"I want $20 back for order #") >= listed["expected"]
