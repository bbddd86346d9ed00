"""What the public port answers: who may, OFREP as it is written down, and nothing but an answer to whatever comes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.asked import is_address
from drillmaster.flags.answers import Access, Answers, Disable, Enable, Lifts, Orders, switched
from drillmaster.flags.doors import Asked, Client, Reply, from_loopback, said
from drillmaster.flags.roster import Roster
from tests.flags.test_board import Told

ACCESS = Access(lead=b"lead-token", kill=b"kill-token", read=b"read-token")
EVALUATE = "/ofrep/v1/evaluate/flags"


class Done(Orders):
    """Orders that are carried out on a board, and remembered."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.done: list[str] = []
        self.errors: list[Exception] = []

    def enable(self, name: str, order: Enable) -> dict[str, Any]:
        window = f"w{len(self.done)}"
        self.told.board.put_on(*self.told.board.prepare(window, [switched(name, order)], 30, order.by))
        self.done.append(f"enable {name}")
        return {"flag": name}

    def disable(self, name: str, order: Disable) -> dict[str, Any]:
        self.told.board.switch_off(name, "disabled")
        self.done.append(f"disable {name}")
        return {"flag": name}

    def kill(self, name: str, order: Lifts, client: Client) -> Reply | None:
        self.told.board.kill(name, order.by)
        self.done.append(f"kill {name}")
        return said(200, {})

    def restore(self, name: str, order: Lifts, client: Client) -> Reply | None:
        self.told.board.restore(name)
        self.done.append(f"restore {name}")
        return said(200, {})

    def hold(self, client: Client, revision: str, wait_s: float, make: Callable[[float], Reply]) -> Reply | None:
        return make(wait_s)

    def heard(self) -> None:
        self.done.append("heard")

    def failed(self, error: Exception) -> None:
        self.errors.append(error)


class Port:
    """The public port without a socket."""

    def __init__(self, access: Access = ACCESS) -> None:
        self.told = Told()
        self.orders = Done(self.told)
        self.evidence: list[str] = []
        roster = Roster(lambda event, fields: self.evidence.append(event))
        self.answers = Answers(self.told.board, roster, access, self.orders, lease_s=2.0, seed=1)
        self.told.board.on_change = self.answers.changed

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | object = b"",
        *,
        token: str = "",
        loopback: bool = True,
        host: bytes | None = b"127.0.0.1:8070",
        **named: bytes,
    ) -> tuple[int, Any]:
        reply = self.reply(method, target, body, token=token, loopback=loopback, host=host, **named)
        return reply.status, json.loads(reply.body) if reply.body else None

    def reply(
        self,
        method: str,
        target: str,
        body: bytes | object = b"",
        *,
        token: str = "",
        loopback: bool = True,
        host: bytes | None = b"127.0.0.1:8070",
        **named: bytes,
    ) -> Reply:
        fields = {name.replace("_", "-").encode(): value for name, value in named.items()}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if content:
            fields.setdefault(b"content-type", b"application/json")
        if token:
            fields[b"authorization"] = f"Bearer {token}".encode()
        path, _, query = target.partition("?")
        client: Any = None
        reply = self.answers.serve(client, Asked(method, path, query, content, fields, host, loopback))
        assert reply is not None
        assert not self.orders.errors
        return reply


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/enable/slow", "lead-token", 200),
        ("/enable/slow", "kill-token", 403),  # each token does its own work
        ("/enable/slow", "read-token", 403),
        ("/enable/slow", "", 401),
        ("/enable/slow", "lead-tokenx", 401),
        ("/enable/nosuch", "", 401),  # who has no token learns no names
        ("/enable/nosuch", "lead-token", 404),
        ("/disable/slow", "lead-token", 200),
        ("/disable/slow", "kill-token", 403),
        ("/kill/refund", "kill-token", 200),
        ("/kill/refund", "lead-token", 403),
        ("/kill/refund", "", 401),
        ("/kill/slow", "kill-token", 404),  # a flag, and no capability
        ("/restore/refund", "kill-token", 200),
        ("/restore/refund", "lead-token", 403),
        ("/enable/refund/x", "lead-token", 404),
        ("/enable/", "lead-token", 404),
        ("/nothing", "lead-token", 404),
    ],
)
def test_who_may_switch_what(path: str, token: str, status: int) -> None:
    port = Port()
    assert port.ask("POST", path, token=token)[0] == status
    assert bool([done for done in port.orders.done if done != "heard"]) is (status == 200)


def test_switching_is_a_post() -> None:
    assert Port().ask("GET", "/enable/slow", token="lead-token")[0] == 405


def test_a_server_without_a_token_lets_nobody_switch() -> None:
    assert Port(Access()).ask("POST", "/enable/slow")[0] == 403


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, 200),
        ({"loopback": False}, 401),
        ({"loopback": False, "token": "read-token"}, 200),
        ({"loopback": False, "x_api_key": b"read-token"}, 200),  # as OFREP allows
        ({"loopback": False, "token": "other"}, 401),
        ({"token": "other"}, 401),  # a wrong token is never none
        ({"origin": b"http://evil.example"}, 403),
        ({"sec_fetch_site": b"cross-site"}, 403),
        ({"host": b"flags.evil.example"}, 421),  # a page's own name that was made to lead here
        ({"host": b"flags.example", "token": "read-token"}, 200),
        ({"host": b"localhost:8070"}, 200),
        ({"host": b"[::1]:8070"}, 200),
    ],
)
def test_who_may_read(more: dict[str, Any], status: int) -> None:
    assert Port().ask("GET", "/flags", **more)[0] == status
    assert Port().ask("POST", EVALUATE, {}, **more)[0] == status


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"ttl":1}',
        b'{"ttl_s":"1"}',
        b'{"ttl_s":1e999}',
        b'{"ttl_s":0}',
        b'{"share":1.5}',
        b'{"first":1,"every":2}',
        b'{"ttl_s":1,"ttl_s":2}',
        b'{"params":{"delay_s":-1}}',
        b'{"params":{"nosuch":1}}',
        b"[" * 60_000,
        b"\xff\xfe",
    ],
)
def test_an_order_that_is_none_switches_nothing(body: bytes) -> None:
    port = Port()
    assert port.ask("POST", "/enable/slow", body, token="lead-token")[0] == 400
    assert port.told.board.on == {}


def test_a_body_has_to_call_itself_json() -> None:
    assert Port().ask("POST", EVALUATE, b"{}", content_type=b"text/plain")[0] == 415


def test_a_listing_is_sent_again_only_when_something_changed() -> None:
    port = Port()
    first = port.reply("GET", "/flags")
    assert first.etag is not None
    assert port.reply("GET", "/flags", if_none_match=first.etag.encode()).status == 304
    port.told.put_on("w", "slow")
    again = port.reply("GET", "/flags", if_none_match=first.etag.encode())
    assert (again.status, again.etag != first.etag) == (200, True)


# OFREP


def test_a_single_evaluation_has_the_fields_of_the_protocol() -> None:
    port = Port()
    port.told.put_on("w", "slow")
    assert port.ask("POST", f"{EVALUATE}/slow", {"context": {"targetingKey": "m1", "other": [1]}}) == (
        200,
        {
            "key": "slow",
            "value": True,
            "variant": "on",
            "reason": "STATIC",
            "metadata": {"kind": "latency", "owner": "o", "leaseSeconds": 2.0, "window": "w", "delay_s": 1.0},
        },
    )
    status, told = port.ask("POST", f"{EVALUATE}/broken")
    assert (status, told["value"], told["variant"]) == (200, False, "off")


@pytest.mark.parametrize(
    ("key", "body", "status", "code"),
    [
        ("nosuch", b"{}", 404, "FLAG_NOT_FOUND"),
        ("Slow", b"{}", 404, "FLAG_NOT_FOUND"),
        ("slow", b"{", 400, "PARSE_ERROR"),
        ("slow", b"[]", 400, "PARSE_ERROR"),
        ("slow", b"\xff", 400, "PARSE_ERROR"),
        ("slow", b"[" * 5_000, 400, "PARSE_ERROR"),
        ("slow", b'{"context":3}', 400, "INVALID_CONTEXT"),
        ("slow", b'{"context":{"targetingKey":3}}', 400, "INVALID_CONTEXT"),
    ],
)
def test_errors_of_an_evaluation_are_the_protocols(key: str, body: bytes, status: int, code: str) -> None:
    told = Port().ask("POST", f"{EVALUATE}/{key}", body)
    assert (told[0], told[1]["key"], told[1]["errorCode"]) == (status, key, code)
    assert told[1]["errorDetails"]  # one SDK reads it without asking whether it is there


def test_a_bulk_evaluation_lists_all_and_answers_304_by_its_etag() -> None:
    port = Port()
    first = port.reply("POST", EVALUATE, {"context": {"targetingKey": "m"}})
    assert [flag["key"] for flag in json.loads(first.body)["flags"]] == ["slow", "broken", "refund"]
    assert first.etag is not None
    for tags in (first.etag, f'"x", {first.etag}', f"W/{first.etag}", "*"):
        again = port.reply("POST", EVALUATE, {}, if_none_match=tags.encode())
        assert (again.status, again.body) == (304, b"")
    assert port.reply("POST", EVALUATE, {}, if_none_match=b'"x"').status == 200
    port.told.board.kill("refund", "bea")
    again = port.reply("POST", EVALUATE, {}, if_none_match=first.etag.encode())
    assert again.status == 200
    assert {flag["key"]: flag["value"] for flag in json.loads(again.body)["flags"]}["refund"] is True


def test_a_bulk_evaluation_that_is_none_is_the_protocols_error() -> None:
    status, told = Port().ask("POST", EVALUATE, b"{")
    assert (status, told["errorCode"]) == (400, "PARSE_ERROR")


def test_the_first_evaluation_of_each_mission_is_met() -> None:
    port = Port()
    assert port.ask("POST", "/enable/slow", {"first": 1}, token="lead-token")[0] == 200
    values = [
        port.ask("POST", f"{EVALUATE}/slow", {"context": {"targetingKey": mission}})[1]["value"]
        for mission in ("a", "a", "b", "a", "b")
    ]
    assert values == [True, False, True, False, False]


def test_a_deadline_ends_what_evaluations_say() -> None:
    port = Port()
    port.told.put_on("w", "slow", ttl_s=2)
    assert port.ask("POST", f"{EVALUATE}/slow")[1]["value"] is True
    port.told.clock.advance(2)
    assert port.ask("POST", f"{EVALUATE}/slow")[1]["value"] is False


def test_the_configuration_says_which_types_there_are() -> None:
    status, told = Port().ask("GET", "/ofrep/v1/configuration")
    assert (status, told["capabilities"]["flagEvaluation"]["supportedTypes"]) == (200, ["boolean"])
    assert Port().reply("GET", "/ofrep/v1/configuration", if_none_match=b'"configuration"').status == 304


# Polls


def test_a_poll_with_an_unknown_name_is_refused_with_the_one_that_was_meant() -> None:
    status, told = Port().ask("POST", "/poll", {"worker": "w", "flags": ["slwo"]})
    assert (status, told["found"]) == (404, "flag 'slwo'. Did you mean 'slow'?")


def test_a_poll_tells_what_is_on_and_what_is_known() -> None:
    port = Port()
    port.told.put_on("w", "slow", ttl_s=20)
    port.told.board.kill("refund", "bea")
    status, told = port.ask("POST", "/poll", {"worker": "w", "flags": ["slow", "refund"]})
    assert (status, told["killed"], told["known"]["slow"]) == (200, ["refund"], "latency")
    assert [(one["flag"], one["left_s"]) for one in told["on"]] == [("slow", 20.0)]
    assert port.evidence == ["flag_joined"]
    again = port.ask("POST", "/poll", {"worker": "w", "held": told["revision"]})[1]
    assert "known" not in again
    assert port.evidence == ["flag_joined", "flag_read"]


def test_saying_the_same_in_turns_fills_no_disk() -> None:
    port = Port()
    port.told.put_on("w", "slow")
    for _ in range(50):
        for held in ("m-1", "m-0", "m-99", "n-7", ""):
            for n in (1, 0):
                poll = {"worker": "w", "held": held, "met": [{"flag": "slow", "window": "w", "n": n}]}
                assert port.ask("POST", "/poll", poll)[0] == 200
    assert port.evidence == ["flag_joined", "flag_read", "flag_met"]
    assert port.ask("POST", "/poll", {"worker": "w", "met": [{"flag": "gone", "window": "w", "n": 1}]})[0] == 200
    assert len(port.evidence) == 3


@pytest.mark.parametrize(
    "poll",
    [
        {},
        {"worker": ""},
        {"worker": "a b"},
        {"worker": "w", "wait_s": 31},
        {"worker": "w", "running": {"refund": -1}},
        {"worker": "w", "met": [{"flag": "slow", "window": "w", "n": 1.5}]},
        {"worker": "w", "met": [{"flag": "slow", "window": "w", "n": 1}] * 201},
        {"worker": "w", "more": 1},
    ],
)
def test_a_poll_that_is_none_is_refused(poll: dict[str, Any]) -> None:
    port = Port()
    assert port.ask("POST", "/poll", poll)[0] == 400
    assert port.evidence == []


@given(
    st.sampled_from(["GET", "POST", "HEAD", "PUT", "OPTIONS"]),
    st.one_of(
        st.text(max_size=60).map(lambda text: "/" + text),
        st.sampled_from(
            [EVALUATE, f"{EVALUATE}/", f"{EVALUATE}x", f"{EVALUATE}/%00", "/poll", "/flags?wait_s=nan", "/flags?a"]
        ),
    ),
    st.binary(max_size=80),
    st.sampled_from(["", "lead-token", "kill-token", "read-token"]),
)
def test_whatever_comes_is_answered(method: str, target: str, body: bytes, token: str) -> None:
    reply = Port().reply(method, target, body, token=token)
    assert 200 <= reply.status < 500


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        (("127.0.0.1", 1), True),
        (("127.9.9.9", 1), True),
        (("::1", 1, 0, 0), True),
        (("::ffff:127.0.0.1", 1, 0, 0), True),
        (("10.0.0.1", 1), False),
        (("::ffff:10.0.0.1", 1, 0, 0), False),
        (("fe80::1%eth0", 1, 0, 2), False),
        ("", True),  # a Unix socket
    ],
)
def test_where_a_caller_is(peer: object, local: bool) -> None:
    assert from_loopback(peer) is local


@pytest.mark.parametrize(
    ("host", "plain"), [(b"127.0.0.1", True), (b"[::1]:1", True), (b"localhost.evil.example", False)]
)
def test_what_is_called_by_address(host: bytes, plain: bool) -> None:
    assert is_address(host) is plain
