"""What a notice says, in Slack's own models and in the reference library of Standard Webhooks; and when it is sent again."""

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from slack_sdk.models.blocks import Block
from standardwebhooks import Webhook, WebhookVerificationError

from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.notices import Notice, notice_of, slack, webhook, without_verdict
from drillmaster.notices.sending import LIMITS, Answer, Sent, Where, address, send
from drillmaster.verdict import AtLeast, Check, Exact, Status, Verdict

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW_S = 1_796_025_600
NOW = "2026-12-04T09:20:00Z"


def check(n: int, status: Status = "fail", **more: Any) -> Check:
    fields: dict[str, Any] = {"id": f"row.r{n}", "role": "judgement", "status": status, "title": f"row {n}"}
    return Check(**(fields | more))


def verdict(*checks: Check, **more: Any) -> Verdict:
    fields: dict[str, Any] = {
        "gate": "matrix", "status": "fail", "checks": checks, "subject": "shop, run R", "now": NOW,
        "evidence_digest": "sha256:e",
    }  # fmt: skip
    return Verdict(**(fields | more))


NOTICES: dict[str, Notice] = {
    "a breach": notice_of(
        verdict(
            check(1, observed=Exact(3.1, 812, 2.9, 3.4), limit=2.5, unit="s", why="p95"),
            check(2, "pass"),
            check(3, "refused", why="no alert was received", observed=AtLeast(300.0), limit=60.0, unit="s"),
        ),
        run="20261204T090000Z-1a2b",
        link="https://ci.example/runs/1",
        ndjson="https://ci.example/runs/1/artifacts/2",
    ),
    "a pass": notice_of(verdict(check(1, "pass"), status="pass"), run="R", link="", ndjson=""),
    "two hundred rows of long text": notice_of(
        verdict(*(check(n, title="x" * 5_000, why="y" * 5_000) for n in range(200)), subject="s" * 900), run="R"
    ),
    "no verdict": without_verdict(status="refused", why="no verdict", gate="matrix", run="R", at=NOW),
    "stopped": without_verdict(status="aborted", why="stopped", gate="matrix", run="R", at=NOW),
    "hostile": notice_of(
        verdict(check(1, title="<!channel> <https://evil.example|x> *b* \u202e", why="token=hunter2hunter2 @here")), run="<@U1>"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTICES)
def test_slacks_own_models_take_every_notice(name: str) -> None:
    body = slack.body(NOTICES[name])
    parsed = Block.parse_all(json.loads(json.dumps(body["blocks"])))
    assert 0 < len(parsed) <= slack.MOST_BLOCKS
    for block, raw in zip(parsed, body["blocks"], strict=True):
        assert block is not None
        block.validate_json()
        assert block.to_dict() == raw  # nothing that the model does not know
    assert 0 < len(body["text"]) <= slack.TEXT_CHARS
    assert all(len(one["text"]["text"]) <= slack.TEXT_CHARS for one in body["blocks"] if one["type"] == "section")


def test_slacks_models_refuse_a_heading_that_is_too_long() -> None:
    block = Block.parse({"type": "header", "text": {"type": "plain_text", "text": "x" * 151}})
    assert block is not None
    with pytest.raises(Exception, match="150"):
        block.validate_json()


def test_a_breach_names_rows_measures_limits_and_links() -> None:
    body = slack.body(NOTICES["a breach"])
    text = json.dumps(body)
    assert body["blocks"][0]["text"]["text"] == "❌ FAIL: matrix, shop, run R"
    rows = [one["text"]["text"] for one in body["blocks"] if one["type"] == "section"]
    assert rows[0].startswith("FAIL row 1: observed 3.1 s (2.9 s to 3.4 s)")
    assert rows[1] == "REFUSED row 3: observed at least 300 s; limit 60 s; no alert was received"
    assert "<https://ci.example/runs/1|the run>" in text
    assert "<https://ci.example/runs/1/artifacts/2|its NDJSON>" in text
    assert "1 checks passed, 2 did not" in text


def test_nobody_is_called_and_no_link_comes_from_evidence() -> None:
    body = slack.body(NOTICES["hostile"])
    assert "<!" not in body["text"] and "<@" not in body["text"]
    assert all(one["text"]["type"] == "plain_text" for one in body["blocks"] if "text" in one)
    assert not any(one["type"] == "mrkdwn" for block in body["blocks"] for one in block.get("elements", ()))
    assert "hunter2" not in json.dumps(body)


def test_rows_that_do_not_fit_are_counted() -> None:
    notice = NOTICES["two hundred rows of long text"]
    assert "and 160 more" in json.dumps(slack.body(notice))
    said = webhook.body(notice)
    assert len(said) <= webhook.MOST_BYTES
    data = json.loads(said)["data"]
    assert data["missed_count"] == 200 > len(data["missed"]) > 0


@pytest.mark.parametrize("name", NOTICES)
def test_the_reference_library_accepts_every_webhook(name: str) -> None:
    body = webhook.body(NOTICES[name])
    keys = webhook.keys_of(SECRET, place="$S")
    headers = dict(webhook.headers(NOTICES[name], body, keys, now_s=int(time.time())))
    said = Webhook(SECRET).verify(body, headers)
    word = {"pass": "passed", "fail": "failed"}.get(NOTICES[name].status, NOTICES[name].status)
    assert said["type"] == f"drill.{word}"
    assert said["timestamp"] == NOTICES[name].at
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)


def test_both_keys_sign_while_one_is_changed_for_the_other() -> None:
    other = "whsec_" + "AbCd" * 8
    keys = webhook.keys_of(f"{SECRET} {other}", place="$S")
    headers = dict(webhook.headers(NOTICES["a pass"], b"{}", keys, now_s=NOW_S))
    assert len(headers["webhook-signature"].split(" ")) == 2


@pytest.mark.parametrize(
    "text", ["", "hunter2hunter2hunter2", "whsec_short", "whsk_" + "A" * 44, "whpk_" + "AbCd" * 10 + "AbA="]
)
def test_a_key_that_is_none_is_refused_by_its_variables_name_alone(text: str) -> None:
    with pytest.raises(Problem) as told:
        webhook.keys_of(text, place="$HOOK_SECRET")
    assert told.value.place == "$HOOK_SECRET"
    assert not text or text not in str(told.value)


def test_a_link_is_kept_whole() -> None:
    link = "https://ci.example/artifacts?job=drill&token_page=2"
    assert f"<{link}|the run>" in json.dumps(slack.body(notice_of(verdict(check(1)), run="R", link=link)))


def test_a_notice_is_the_same_one_however_often_it_is_sent() -> None:
    one, two = (notice_of(verdict(check(1)), run="R", link=link) for link in ("", "https://ci.example/2"))
    assert one.id == two.id
    assert one.id != notice_of(verdict(check(1), status="pass"), run="R").id
    without = [
        without_verdict(status="refused", why="none", gate="matrix", run="R", at=at)
        for at in (NOW, "2026-12-05T00:00:00Z")
    ]
    assert without[0].id == without[1].id != one.id


# Addresses


@pytest.mark.parametrize(
    "text, found",
    [
        (None, "nothing"), ("", "nothing"),
        ("hooks.example/T0/B0/hunter2", "no address"), ("ftp://h.example/hunter2", "no address"),
        ("http://hooks.example/hunter2", "open wire"), ("https://u:hunter2@h.example/", "no address"),
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_named_by_its_variable(text: str | None, found: str) -> None:
    with pytest.raises(Problem, match=found) as told:
        address(text, place="$SLACK")
    assert "hunter2" not in str(told.value)


def test_an_address_is_https_or_loopback() -> None:
    assert address("https://hooks.slack.com/services/T/B/x", place="$S").host == "hooks.slack.com"
    assert address("http://127.0.0.1:8099/hook?a=1", place="$S") == Where("http", "127.0.0.1", 8099, "/hook?a=1")


# Again


class Receiver:
    """Answers one after the other, and what came."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.bodies, self.headers = list(answers), [], []
        self.waits: list[float] = []
        self.clock = ManualClock(wall_ns=NOW_S * 10**9)

    def post(self, where: Where, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        self.bodies.append(body)
        self.headers.append(dict(headers))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)

    def sent(self, *, key: str = "", stamp: bool = False) -> Sent:
        return send(
            "webhook" if key else "slack", Where("https", "h.example", None, "/x"), b"{}", clock=self.clock, key=key,
            headers=lambda now_s: [("webhook-timestamp", str(now_s))] if stamp else [], post=self.post, wait=self.wait,
            jitter=lambda: 1.0,
        )  # fmt: skip


OK, LATER = Answer(200), Answer(503)


@pytest.mark.parametrize(
    "answers, key, ok, calls",
    [
        ((OK,), "", True, 1),
        ((Answer(204),), "", True, 1),
        ((LATER, LATER, OK), "msg_1", True, 3),  # it has an identifier
        ((LATER, OK), "", False, 1),  # Slack may have posted it
        ((Answer(429), OK), "", True, 2),  # turned away: it has not
        ((LATER,), "msg_1", False, 4),  # four and no more
        ((Answer(404),), "msg_1", False, 1),
        ((Answer(302),), "msg_1", False, 1),  # no redirect is followed
        ((Answer(None, why="connection refused"),), "msg_1", False, 1),
    ],
)
def test_what_is_sent_again(answers: tuple[Answer, ...], key: str, ok: bool, calls: int) -> None:
    said = Receiver(*answers).sent(key=key)
    assert (said.ok, said.calls) == (ok, calls)
    assert bool(said.why) != ok


def test_a_wait_that_was_asked_for_is_kept_and_one_over_the_cap_ends_it() -> None:
    receiver = Receiver(Answer(429, (("retry-after", "7"),)), OK)
    assert receiver.sent().ok
    assert receiver.waits == [7.0]
    too_long = Receiver(Answer(429, (("retry-after", "3600"),)), OK).sent()
    assert not too_long.ok
    assert "retry-after-over-cap" in too_long.why


def test_each_call_is_stamped_anew_and_the_whole_stays_within_a_minute() -> None:
    receiver = Receiver(Answer(503, (("retry-after", "20"),)))
    said = receiver.sent(key="msg_1", stamp=True)
    assert not said.ok
    stamps = [one["webhook-timestamp"] for one in receiver.headers]
    assert stamps == [str(NOW_S + 20 * n) for n in range(len(stamps))]
    assert sum(receiver.waits) <= LIMITS.deadline_ms / 1_000
