import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.answering import Answers
from drillmaster.adapters.worker.serving import Asked, Reply
from tests.adapters.worker.test_guarding import TOOLS, Kept, opened, write
from tests.intake.test_guards_files import QUOTA, RETRY

WHOLE = b'{"partner":"ledger","identity":"acct-7"}'
FACTS = {"quota": {"partner": "ledger", "identity": "acct-7"}}


def answers(folder: Path, store: Kept | None = None) -> Answers:
    return Answers(opened(write(folder / "g.json", QUOTA, TOOLS), store or Kept()))


def said(found: Answers, method: str, path: str, body: object = b"", query: str = "") -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    made: Any = found.answer(Asked(method, path, query, data))

    async def wait() -> Reply:
        reply: Reply = await made
        return reply

    reply = asyncio.run(wait()) if inspect.isawaitable(made) else made
    return reply.status, json.loads(
        reply.body
    ) if reply.content_type == "application/json" and reply.body else reply.body


def test_only_an_allowed_decision_is_a_200(tmp_path: Path) -> None:
    found = answers(tmp_path)
    statuses = [said(found, "POST", "/v1/quota", FACTS["quota"]) for _ in range(6)]
    assert [one[0] for one in statuses] == [200] * 5 + [403]
    assert [one[1]["allowed"] for one in statuses] == [True] * 5 + [False]
    assert statuses[5][1]["reason"] == "over-burst"
    assert statuses[5][1]["wait_ms"] == 2_000


def test_no_answer_of_the_store_is_a_503_that_denies(tmp_path: Path) -> None:
    store = Kept()
    store.down = True
    status, body = said(answers(tmp_path, store), "POST", "/v1/quota", FACTS["quota"])
    assert (status, body["allowed"], body["reason"]) == (503, False, "store-unavailable")


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "status"),
    [
        ("POST", "/v1/quota", "", b"", 400),
        ("POST", "/v1/quota", "", b"{}", 400),
        ("POST", "/v1/quota", "", b'{"partner":"a","partner":"ledger","identity":"acct-7"}', 400),
        ("POST", "/v1/quota", "", b'{"partner":"ledger","identity":"acct-7","prompt":"x"}', 400),
        ("POST", "/v1/quota", "", b'{"partner":"ledger","identity":true}', 400),
        ("POST", "/v1/quota", "", b'[{"partner":"ledger","identity":"acct-7"}]', 400),
        ("POST", "/v1/quota", "route=", WHOLE, 400),
        ("POST", "/v1/quota", "route=a&route=b", WHOLE, 400),
        ("POST", "/v1/quota", "rotue=a", WHOLE, 400),
        ("POST", "/v1/quota", "route=a%20b", WHOLE, 400),
        ("POST", "/v1/retry", "", b"{}", 404),  # there is such a guard, and the file has none
        ("POST", "/v1/QUOTA", "", b"{}", 404),
        ("POST", "/v1/quota/", "", b"{}", 404),
        ("POST", "/", "", b"{}", 404),
        ("GET", "/v1/quota", "", b"", 405),
        ("DELETE", "/v1/quota", "", b"", 405),
        ("POST", "/healthz", "", b"{}", 405),
        ("POST", "/v1/quota/succeeded", "", b"", 400),  # it has no budget to give back to
        ("POST", "/v1/nope/succeeded", "", b"", 404),
    ],
)
def test_every_other_answer_denies(
    method: str, path: str, query: str, body: bytes, status: int, tmp_path: Path
) -> None:
    found = answers(tmp_path)
    code, told = said(found, method, path, body, query)
    assert code == status
    assert told["allowed"] is False
    assert told["reason"] in ("facts-unusable", "request-refused", "unlisted-guard")
    assert not found._guarding.recorder.counts()  # nobody decided


def test_what_is_wrong_with_facts_is_told_with_its_place(tmp_path: Path) -> None:
    _, body = said(answers(tmp_path), "POST", "/v1/quota", {**FACTS["quota"], "requests": True})
    assert body["error"]["place"].endswith("/requests")
    assert body["error"]["found"] == "true"


def test_a_good_call_gives_back(tmp_path: Path) -> None:
    store = Kept()
    found = Answers(opened(write(tmp_path / "g.json", {**RETRY, "budget_tokens": 1, "refund": 0.5}), store))
    facts = {"source": "pinned-map", "protocol": "http", "method": "GET", "code": 503, "attempt": 1, "elapsed_ms": 5}
    assert [said(found, "POST", "/v1/retry", facts)[0] for _ in range(2)] == [200, 403]
    for query in ("calls=0", "calls=-1", "calls=x", "calls=1000001"):
        assert said(found, "POST", "/v1/retry/succeeded", b"", query)[0] == 400
    assert said(found, "POST", "/v1/retry/succeeded", b"{}")[0] == 400
    assert said(found, "POST", "/v1/retry/succeeded", b"", "calls=2")[0] == 204
    assert said(found, "POST", "/v1/retry", facts)[0] == 200
    store.down = True
    assert said(found, "POST", "/v1/retry/succeeded")[0] == 503


def test_a_good_call_that_is_told_twice_by_its_id_gives_back_once(tmp_path: Path) -> None:
    found = Answers(opened(write(tmp_path / "g.json", {**RETRY, "budget_tokens": 1, "refund": 0.5}), Kept()))
    facts = {"source": "pinned-map", "protocol": "http", "method": "GET", "code": 503, "attempt": 1, "elapsed_ms": 5}
    assert [said(found, "POST", "/v1/retry", facts)[0] for _ in range(2)] == [200, 403]
    for _ in range(3):
        assert said(found, "POST", "/v1/retry/succeeded", b"", "id=b6c1-9")[0] == 204
    assert said(found, "POST", "/v1/retry", facts)[0] == 403  # half a token
    for query in ("id=", "id=a.b", "id=a%20b", f"id={'x' * 41}", "id=a&id=b"):
        assert said(found, "POST", "/v1/retry/succeeded", b"", query)[0] == 400
    assert said(found, "POST", "/v1/retry/succeeded", b"", f"calls=1&id={'x' * 40}")[0] == 204
    assert said(found, "POST", "/v1/retry", facts)[0] == 200


def test_a_session_is_counted_apart_and_can_be_ended(tmp_path: Path) -> None:
    found = answers(tmp_path)
    call = {
        "asks": "call",
        "list_sha256": "sha256:" + "0" * 64,
        "listed": True,
        "privileges": ["fs.read"],
        "arguments_read": True,
    }
    assert [said(found, "POST", "/v1/tools", call, f"session={one}")[0] for one in "aab"] == [200, 403, 200]
    assert said(found, "DELETE", "/v1/tools", b"", "session=a")[0] == 204
    assert said(found, "POST", "/v1/tools", call, "session=a")[0] == 200


def test_pages_say_what_there_is(tmp_path: Path) -> None:
    found = answers(tmp_path)
    said(found, "POST", "/v1/quota", FACTS["quota"])
    said(found, "POST", "/v1/nope", b"{}")
    assert said(found, "GET", "/healthz")[1]["guards"] == ["quota", "tools"]
    rows = {row["name"]: row for row in said(found, "GET", "/v1")[1]}
    assert "over-cap" in rows["quota"]["reasons"]
    assert "partner" in rows["quota"]["facts"]
    status, text = said(found, "GET", "/metrics")
    assert status == 200
    assert (
        b'drillmaster_guard_decisions_total{entry="quota",guard="quota",reason="within-quota",allowed="true"} 1' in text
    )
    assert b'drillmaster_guard_requests_refused_total{status="404"} 1' in text


def test_nothing_of_what_was_refused_is_in_the_metrics(tmp_path: Path) -> None:
    found = answers(tmp_path)
    said(found, "POST", "/v1/dear-sir", b'{"prompt":"hello"}')
    said(found, "POST", "/v1/quota", {"partner": "dear-sir", "identity": "hello"})
    _, text = said(found, "GET", "/metrics")
    assert b"dear-sir" not in text
    assert b"hello" not in text
