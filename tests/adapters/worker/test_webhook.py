"""The terminator as an application: each request is one answer of the table, and what was answered 202 is in the inbox."""

import asyncio
import functools
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.adapters.worker.webhook import Endpoint, Keeper, Terminator, Told
from drillmaster.clock import ManualClock
from drillmaster.guards.webhook import STATUS, Webhook
from drillmaster.rules.webhook_schemes import SCHEMES, read_key, sign
from drillmaster.stores.inbox import Arrival, Inbox, Kept
from drillmaster.stores.inbox_sqlite import SQLite

KEY = read_key("a-secret-of-at-least-24-bytes", standard=False, place="k")
CLOCK = ManualClock()
NOW_S = CLOCK.wall_ns() // 10**9
PATH = "/webhooks/billing"


class Lab:
    """An endpoint, its inbox, and requests to it without a socket."""

    def __init__(self, path: Path, *, scheme: str = "stripe", lane: Any = "production", **extra: Any) -> None:
        self.path = path
        self.inbox = self.open()
        self.inbox.prepare()
        limits = Webhook(
            scheme=scheme, lane=lane,
            max_body_bytes=extra.pop("max_body_bytes", 65_536), read_within_ms=extra.pop("read_within_ms", 2_000),
        )  # fmt: skip  # two pairs
        self.endpoint = Endpoint(
            source="acme",
            path=PATH,
            limits=limits,
            keys=() if lane == "lab" else (KEY,),
            hostname=extra.pop("hostname", None),
        )
        self.scheme = SCHEMES[scheme]
        self.told: list[Told] = []
        self.keeper = extra.pop("keeper", None) or Keeper(self.open, within_s=2, threads=1)
        self.app = Terminator(
            self.endpoint, self.keeper, clock=CLOCK, on_decision=extra.pop("on_decision", self.told.append)
        )

    def open(self) -> Inbox:
        return Inbox(SQLite(str(self.path), within_s=2, clock=CLOCK))

    def signed(self, body: bytes, **more: Any) -> list[tuple[bytes, bytes]]:
        return sign(self.scheme, body, [KEY], **{"time_s": NOW_S, "message_id": "msg_1", **more})

    def post(self, body: bytes, headers: list[tuple[bytes, bytes]] | None = None, **more: Any) -> int:
        return self.ask(body, self.signed(body) if headers is None else headers, **more)[0]

    def ask(
        self, body: bytes, headers: list[tuple[bytes, bytes]], *, method: str = "POST", path: str = PATH, query: bytes = b"",
        parts: Any = None, length: int | None = None,
    ) -> tuple[int, bytes, dict[bytes, bytes]]:  # fmt: skip
        announced = [] if length is None else [(b"Content-Length", b"%d" % length)]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query,
                 "headers": [(b"host", b"hooks.example"), *announced, *headers]}  # fmt: skip
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def run() -> None:
            given = parts() if parts else whole(body)
            await self.app(scope, given.__anext__, send)

        asyncio.run(run())
        if not sent:
            return 0, b"", {}
        assert sent[-1]["more_body"] is False
        assert [message["type"] for message in sent].count("http.response.start") == 1
        return sent[0]["status"], b"".join(m.get("body", b"") for m in sent[1:]), dict(sent[0]["headers"])


async def whole(body: bytes) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "http.request", "body": body, "more_body": False}
    await asyncio.Event().wait()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "inbox.db")
    yield made
    made.keeper.close()
    made.inbox.close()


@pytest.mark.parametrize("name", SCHEMES)
def test_each_scheme_is_stored_before_its_202(tmp_path: Path, name: str) -> None:
    keeper = Keeper(lambda: Inbox(SQLite(str(tmp_path / "i.db"), within_s=2)), within_s=2, threads=1)
    made = Lab(tmp_path / "i.db", scheme=name, keeper=keeper)
    body = b'{"id":"evt_1","event_id":"Ev1","event":{"id":"01CH"}}'
    assert made.ask(body, made.signed(body))[:2] == (202, b"accepted\n")
    assert made.inbox.counts().waiting == 1
    assert made.ask(body, made.signed(body))[:2] == (202, b"accepted-before\n")
    assert made.inbox.counts().waiting == 1
    keeper.close()
    made.inbox.close()


def test_the_table_holds_for_what_can_come(lab: Lab) -> None:
    good = b'{"id":"evt_1"}'
    assert lab.post(good) == 202
    assert lab.post(good, []) == 401
    assert lab.post(good, [(b"stripe-signature", b"t=1,v1=deadbeef")]) == 401
    assert lab.post(good, lab.signed(good + b" ")) == 401
    assert lab.post(good, lab.signed(good, time_s=NOW_S - 301)) == 401
    assert lab.post(good, lab.signed(good, time_s=NOW_S + 301)) == 401
    assert lab.post(good, lab.signed(good) * 2) == 401  # two lines of one name
    assert lab.ask(good, lab.signed(good), path="/webhooks/billing/")[0] == 404
    assert lab.ask(good, lab.signed(good), path="/")[0] == 404
    assert lab.ask(good, lab.signed(good), query=b"x=1")[0] == 404
    status, _, headers = lab.ask(good, lab.signed(good), method="PUT")
    assert (status, headers[b"allow"], headers[b"connection"]) == (405, b"POST", b"close")
    assert lab.inbox.counts().waiting == 1


@pytest.mark.parametrize(
    "body",
    [
        b"null", b"", b"[]", b'["id"]', b'"id"', b"1", b"true", b"{", b'{"id":"e"', b'{"id":"e","a":NaN}',
        b'{"id":"e","a":Infinity}', b'{"id":"e","a":1e999}', b'{"id":"e","id":"f"}', b'\xef\xbb\xbf{"id":"e"}', b'{"id":"\xff"}',
        b'{"id":"e","a":"\\ud800"}', b'{"id":"e"} x', b"\x1f\x8b\x08\x00", b"[" * 60_000, '{"id":"e"}'.encode("utf-16"),
        b'{"id":1}', b'{"id":true}', b'{"id":null}', b'{"id":""}', b'{"ID":"e"}', b"{}", b'{"id":"a\\u0000"}', b'{"id":{"a":1}}',
    ],
    ids=lambda body: repr(body[:24]),
)  # fmt: skip
def test_what_is_signed_and_cannot_be_read_is_400(lab: Lab, body: bytes) -> None:
    assert lab.post(body) == 400
    assert lab.post(body, []) == 401  # not read at all before it is signed
    assert lab.inbox.counts().waiting == 0


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"5", b"", b"\xff"])
def test_a_body_that_is_no_object_is_400_also_where_its_digest_is_the_identifier(tmp_path: Path, body: bytes) -> None:
    made = Lab(tmp_path / "i.db", scheme="github")
    assert made.post(body) == 400 and made.inbox.counts().waiting == 0
    made.keeper.close()


def test_a_compressed_body_is_signed_as_it_came_or_not_at_all(lab: Lab) -> None:
    import gzip

    plain = b'{"id":"evt_1"}'
    packed = gzip.compress(plain)
    coding = [(b"content-encoding", b"gzip")]
    assert lab.post(packed, lab.signed(plain) + coding) == 401
    assert lab.post(packed, lab.signed(packed) + coding) == 400


def test_a_large_body_is_read_like_a_small_one(lab: Lab) -> None:
    filling = b"1," * 20_000 + b"1]"
    assert lab.post(b'{"id":"evt_large","x":[' + filling + b"}") == 202
    assert lab.post(b'{"id":"evt_large","x":[' + filling + b',"y":NaN}') == 400
    assert lab.post(b"[" + filling) == 400


@pytest.mark.parametrize("length", [65_537, 10**14])
def test_a_body_that_is_announced_too_large_is_not_read(lab: Lab, length: int) -> None:
    async def never() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.disconnect"}  # asked for once, to throw away

    status, text, headers = lab.ask(b"", lab.signed(b""), parts=never, length=length)
    assert (status, text, headers[b"connection"]) == (413, b"too-large\n", b"close")


def test_a_body_that_grows_too_large_is_cut(lab: Lab) -> None:
    async def parts() -> AsyncIterator[dict[str, Any]]:
        for _ in range(100):
            yield {"type": "http.request", "body": b"x" * 1_000, "more_body": True}
        yield {"type": "http.disconnect"}

    assert lab.ask(b"", lab.signed(b""), parts=parts)[0] == 413
    assert lab.post(b"x" * 65_536) == 400  # just as much as may be
    assert lab.post(b"x" * 65_537) == 413


def test_a_body_that_does_not_end_is_408(tmp_path: Path) -> None:
    made = Lab(tmp_path / "i.db", read_within_ms=1)

    async def parts() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": b"x", "more_body": True}
        await asyncio.Event().wait()

    status, _, headers = made.ask(b"", made.signed(b""), parts=parts)
    assert (status, headers[b"connection"]) == (408, b"close")
    made.keeper.close()


def test_a_client_that_goes_away_is_answered_nothing(lab: Lab) -> None:
    async def parts() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": b"{", "more_body": True}
        yield {"type": "http.disconnect"}

    assert lab.ask(b"", lab.signed(b""), parts=parts)[0] == 0
    assert lab.app.counts == {"client-gone": 1} and lab.told == []


def test_another_body_under_a_known_identifier_is_an_alarm_and_writes_over_nothing(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = b'{"id":"evt_1","amount":5}', b'{"id":"evt_1","amount":500}'
    assert [lab.post(first), lab.post(second), lab.post(second), lab.post(first)] == [202, 409, 409, 202]
    assert lab.inbox.counts().waiting == 1 and lab.inbox.counts().other_bodies == 1
    event = lab.inbox.claim(lease_ms=1_000)
    assert event is not None and event.body == first
    assert lab.app.counts["other-body"] == 2
    alarms = [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(alarms) == 2 and "evt_1" not in " ".join(alarms) and "500" not in " ".join(alarms)


def test_a_restated_event_of_stripe_is_no_alarm(lab: Lab) -> None:
    assert lab.post(b'{"id":"evt_1","pending_webhooks":2}') == 202
    assert lab.post(b'{"id":"evt_1","pending_webhooks":1}') == 202
    assert lab.inbox.counts().other_bodies == 0


def test_a_replay_under_an_identifier_that_is_not_signed_is_the_same_event(tmp_path: Path) -> None:
    made = Lab(tmp_path / "i.db", scheme="github")
    body = b'{"action":"opened"}'
    for delivery in (b"72d3162e", b"another"):
        assert made.post(body, [*made.signed(body), (b"x-github-delivery", delivery)]) == 202
    assert made.inbox.counts().waiting == 1
    made.keeper.close()


class Broken(Inbox):
    """An inbox whose disk is full."""

    def keep(self, arrival: Arrival) -> Kept:
        raise RuntimeError("no room on the disk, and a body: " + arrival.body.decode())


def test_a_store_that_fails_is_500_and_says_nothing_of_the_body(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Lab(tmp_path / "i.db")
    backend = SQLite(str(tmp_path / "nowhere" / "i.db"), within_s=0.1)
    for opened in (lambda: Broken(backend), lambda: Inbox(backend)):
        keeper = Keeper(opened, within_s=1, threads=1)
        app = Terminator(made.endpoint, keeper, clock=CLOCK, on_decision=made.told.append)
        made.app = app
        assert made.ask(b'{"id":"evt_secret"}', made.signed(b'{"id":"evt_secret"}'))[:2] == (500, b"store-failed\n")
        keeper.close()
    assert "evt_secret" not in caplog.text and caplog.text.count("not kept") == 2
    made.keeper.close()


def test_a_store_that_hangs_is_500_in_time_and_what_waits_is_bounded(tmp_path: Path) -> None:
    import threading

    made, held = Lab(tmp_path / "i.db"), threading.Event()

    class Hanging(Inbox):
        def keep(self, arrival: Arrival) -> Kept:
            held.wait()
            return super().keep(arrival)

    keeper = Keeper(lambda: Hanging(SQLite(str(tmp_path / "i.db"), within_s=2)), within_s=0.05, threads=1)

    async def run() -> list[str]:
        arrivals = [Arrival(source="s", event_id=f"e{n}", digest="d", body=b"") for n in range(400)]
        return await asyncio.gather(*(keeper.keep(one) for one in arrivals))

    told = asyncio.run(run())
    assert set(told) == {"failed", "no-room"} and 256 <= told.count("failed") <= 257
    held.set()
    keeper.close()
    assert made.inbox.counts().waiting == told.count("failed")  # kept late: the same events when they come again
    made.keeper.close()


def test_half_sent_bodies_hold_so_much_and_no_more(tmp_path: Path) -> None:
    made = Lab(tmp_path / "i.db", max_body_bytes=26_214_400, read_within_ms=60_000)
    small = b'{"id":"evt_1"}'

    async def run() -> list[int]:
        let_go, statuses = asyncio.Event(), []

        async def half() -> AsyncIterator[dict[str, Any]]:
            yield {"type": "http.request", "body": bytes(26_214_400), "more_body": True}
            await let_go.wait()
            yield {"type": "http.disconnect"}

        async def post(parts: AsyncIterator[dict[str, Any]], headers: list[tuple[bytes, bytes]]) -> None:
            async def send(message: dict[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            scope = {"type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(), "query_string": b"",
                     "headers": [(b"host", b"hooks.example"), *headers]}  # fmt: skip
            await made.app(scope, parts.__anext__, send)

        holders = [asyncio.create_task(post(half(), [])) for _ in range(3)]
        while not statuses:
            await asyncio.sleep(0)
        await post(whole(small), made.signed(small))  # who is turned away gives its bytes back
        let_go.set()
        await asyncio.gather(*holders)
        await post(whole(small), made.signed(small))
        return statuses

    assert asyncio.run(run()) == [500, 202, 202]
    assert made.app.counts["no-room"] == 1
    made.keeper.close()
    made.inbox.close()


def test_many_at_once_are_written_together_and_each_has_its_own_answer(tmp_path: Path) -> None:
    made = Lab(tmp_path / "i.db")
    keeper = Keeper(made.open, within_s=5, threads=1, together=64)
    ids = [f"e{n % 40}" for n in range(120)]

    async def run() -> list[str]:
        arrivals = [
            Arrival(source="s", event_id=name, digest="d" if n < 80 else "other", body=b"")
            for n, name in enumerate(ids)
        ]
        return await asyncio.gather(*(keeper.keep(one) for one in arrivals))

    told = asyncio.run(run())
    assert (told.count("new"), told.count("known"), told.count("other-body")) == (40, 40, 40)
    assert told[:40] == ["new"] * 40 and made.inbox.counts().waiting == 40
    keeper.close()
    made.keeper.close()


def test_whoever_listens_hears_the_guard_the_reason_and_counts(lab: Lab) -> None:
    lab.post(b'{"id":"evt_1"}')
    lab.post(b'{"id":"evt_1"}', [])
    lab.post(b'{"id":"evt_1"}', [])
    assert lab.told[0] == Told(guard="webhook", allowed=True, reason="accepted", status=202, count=1)
    assert lab.told[2] == Told(guard="webhook", allowed=False, reason="signature-missing", status=401, count=2)
    assert all(told.status == STATUS[told.reason] for told in lab.told)


def test_a_listener_that_fails_changes_no_answer(tmp_path: Path) -> None:
    def fails(told: Told) -> None:
        raise RuntimeError("no timeline")

    made = Lab(tmp_path / "i.db", on_decision=fails)
    assert made.post(b'{"id":"evt_1"}') == 202
    assert made.app.counts == {"accepted": 1, "listener-failed": 1}
    made.keeper.close()


def test_a_lab_takes_fixtures_at_its_own_hostname_and_nothing_that_is_signed(tmp_path: Path) -> None:
    made = Lab(tmp_path / "i.db", lane="lab", hostname="hooks.example")
    assert made.post(b'{"id":"evt_1"}', []) == 202
    for name in SCHEMES:
        assert made.ask(b'{"id":"evt_2"}', [(SCHEMES[name].signature, b"x")])[:2] == (401, b"signed-in-lab\n")
    assert made.post(b"null", []) == 400
    other = Lab(tmp_path / "j.db", lane="lab", hostname="other.example")
    assert other.post(b'{"id":"evt_1"}', []) == 404
    made.keeper.close()
    other.keeper.close()


def test_production_without_a_key_is_no_application(lab: Lab) -> None:
    with pytest.raises(ValueError, match="keys"):
        Terminator(Endpoint(source="a", path=PATH, limits=lab.endpoint.limits, keys=()), lab.keeper)


NAMES = sorted(
    {name for row in SCHEMES.values() for name in (row.signature, row.time, row.id_header) if name}
    | {b"content-length", b"content-type", b"content-encoding", b"host", b"x-github-delivery"}
)


FOLDER = tempfile.TemporaryDirectory(prefix="dm-hook-")


@functools.cache
def lab_of(scheme: str) -> Lab:
    return Lab(Path(FOLDER.name) / f"{scheme}.db", scheme=scheme)


@settings(max_examples=150)
@given(
    scheme=st.sampled_from(sorted(SCHEMES)),
    headers=st.lists(st.tuples(st.sampled_from(NAMES), st.binary(max_size=80)), max_size=6),
    body=st.binary(max_size=60),
)
def test_whatever_comes_is_a_refusal_of_the_table_and_never_a_5xx(
    scheme: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    assert lab_of(scheme).post(body, headers) in (401, 413)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "event", "event_id", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(scheme=st.sampled_from(sorted(SCHEMES)), document=JSON, ascii_only=st.booleans())
def test_whatever_is_signed_is_stored_or_400(scheme: str, document: Any, ascii_only: bool) -> None:
    made = lab_of(scheme)
    made.inbox._connected().execute("DELETE FROM drillmaster_inbox")
    body = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    status = made.post(body, made.signed(body))
    assert status in (202, 400) and made.inbox.counts().waiting == (status == 202)


class Stepping(ManualClock):
    """A clock that is set by minutes whenever somebody looked."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def wall_ns(self) -> int:
        self.step_wall(self.seconds)
        return super().wall_ns()


@pytest.mark.parametrize("seconds", [200, -200])
def test_an_event_is_as_old_as_when_it_came_however_long_the_store_takes(tmp_path: Path, seconds: float) -> None:
    """What is stored is not denied for its age afterwards: that would be a 500 for an event that is kept."""
    lab = Lab(tmp_path / "i.db")
    app = Terminator(lab.endpoint, lab.keeper, clock=Stepping(seconds))
    lab.app = app
    body = b'{"id":"evt_1"}'
    assert lab.post(body, lab.signed(body, time_s=NOW_S + int(seconds))) == 202
    lab.keeper.close()
    lab.inbox.close()


@pytest.mark.parametrize(
    "name", [b"x-hub-signature", b"X-Twilio-Signature", b"x-shopify-hmac-sha1", b"signature-input"]
)
def test_what_is_signed_by_a_scheme_that_is_no_row_is_refused_in_the_lab_too(tmp_path: Path, name: bytes) -> None:
    lab = Lab(tmp_path / "i.db", lane="lab")
    assert lab.post(b'{"id":"evt_1"}', [(name, b"sha1=00")]) == 401
    assert lab.post(b'{"id":"evt_1"}', []) == 202
    lab.keeper.close()
    lab.inbox.close()


def test_a_path_of_any_characters_is_404(lab: Lab) -> None:
    """A server that does not say the raw path decodes it as it likes."""
    body = b'{"id":"evt_1"}'
    scope = {"type": "http", "method": "POST", "path": "/\udcff", "query_string": b"", "headers": lab.signed(body)}
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def run() -> None:
        await lab.app(scope, whole(body).__anext__, send)

    asyncio.run(run())
    assert sent[0]["status"] == 404
