"""May a worker hold a lease: who may ask, what a token is, and what no request can carry."""

from typing import Any

import msgspec
import pytest

from drillmaster.guards import Ask, Decision
from drillmaster.guards.lease import REASONS, Lease, LeaseDecision, LeaseRequest
from drillmaster.rules.lease import Held
from tests.rules.test_fence import NO_TOKENS

LIMITS = Lease(lease="nightly-export", ttl_ms=30_000, may_steal=("bea@example.com",))
NOW_MS = 1_796_088_673_521
TOKEN = str(NOW_MS * 1_000)


def request(action: Any = "acquire", token: Any = None, **facts: Any) -> LeaseRequest:
    said = {"action": action, "source": "lock-client", "holder": "h1", "by": "worker-1", "fencing_token": token}
    return LeaseRequest(**{**said, **facts})


def played(*asked: tuple[int, LeaseRequest]) -> list[Decision]:
    state: Held | None = None
    told = []
    for now_ms, facts in asked:
        state, decision = LIMITS.step(state, facts, now_ms)
        assert decision.reason in REASONS
        told.append(decision)
    return told


def reason(facts: LeaseRequest) -> str:
    """What a holder's question gets while h1 holds the lease under TOKEN."""
    decision = played((NOW_MS, request()), (NOW_MS + 1, facts))[-1]
    assert decision.allowed == (decision.reason in ("granted", "renewed", "released", "stolen"))
    return decision.reason


def test_who_acquires_gets_a_token_of_the_store_and_how_long_it_lasts() -> None:
    assert played((NOW_MS, request())) == [
        LeaseDecision(allowed=True, reason="granted", fencing_token=TOKEN, lasts_ms=30_000)
    ]


def test_who_comes_second_gets_no_token_and_is_told_when_to_ask_again() -> None:
    told = played((NOW_MS, request()), (NOW_MS + 1, request(holder="h2")))[-1]
    assert told == LeaseDecision(allowed=False, reason="held", wait_ms=29_999)


def test_a_renewal_is_one_ttl_from_now_however_often() -> None:
    told = played((NOW_MS, request()), *[(NOW_MS + n, request("renew", TOKEN)) for n in (1, 2, 3)])
    assert [one.lasts_ms for one in told if isinstance(one, LeaseDecision)] == [30_000] * 4


@pytest.mark.parametrize("token", NO_TOKENS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("action", ["renew", "release", "steal"])
def test_what_is_no_token_is_denied_and_raises_nothing(action: str, token: Any) -> None:
    assert reason(request(action, token, by="bea@example.com")) == "token-unusable"


@pytest.mark.parametrize(
    "action",
    ["extend", "RENEW", "renew ", "ren\u0435w", "renew the lease", "keep the hold alive",
     "", None, True, 5, ["renew"], {"renew"}, {}, b"renew"],
)  # fmt: skip  # one case a piece
def test_an_action_that_is_none_is_denied(action: Any) -> None:
    assert reason(request(action, TOKEN)) == "action-unknown"


@pytest.mark.parametrize(
    "source", ["model", "lock_client", "Lock-Client", "lock-client ", "", None, True, ["lock-client"], b"lock-client"]
)
@pytest.mark.parametrize("action", ["acquire", "renew", "release", "steal"])
def test_whoever_is_not_the_lock_client_is_denied_whatever_they_ask(action: str, source: Any) -> None:
    assert reason(request(action, None if action == "acquire" else TOKEN, source=source)) == "source-not-lock-client"


@pytest.mark.parametrize("field", ["holder", "by", "item"])
@pytest.mark.parametrize("value", [None, 5, True, "a\nb", "\x00", "\u202e", "\ud800", "x" * 201, ["h1"], b"h1"])
def test_a_name_that_is_none_is_denied(field: str, value: Any) -> None:
    assert reason(request("renew", TOKEN, **{field: value})) == "facts-unusable"


@pytest.mark.parametrize("field", ["holder", "by"])
def test_a_name_that_is_missing_is_denied(field: str) -> None:
    assert reason(request("renew", TOKEN, **{field: ""})) == "facts-unusable"


def test_nobody_brings_a_token_to_acquire_with() -> None:
    assert reason(request("acquire", TOKEN, holder="h2")) == "token-not-asked"


def test_a_free_lease_and_no_token_do_not_make_a_holder() -> None:
    told = played((NOW_MS, request()), (NOW_MS, request("release", TOKEN)), (NOW_MS, request("renew", None)))
    assert [one.reason for one in told] == ["granted", "released", "token-unusable"]


def test_renewing_is_for_the_latest_token_its_holder_and_before_the_deadline() -> None:
    assert reason(request("renew", TOKEN)) == "renewed"
    assert reason(request("renew", str(int(TOKEN) + 1))) == "stale-token"
    assert reason(request("renew", TOKEN, holder="h2")) == "other-holder"
    late = played((NOW_MS, request()), (NOW_MS + 30_000, request("renew", TOKEN)))
    assert late[-1].reason == "expired"


def test_a_clock_that_goes_back_makes_no_deadline_of_the_past() -> None:
    told = played((NOW_MS, request()), (1, request("renew", TOKEN)), (NOW_MS + 1, request(holder="h2")))
    assert [one.reason for one in told] == ["granted", "renewed", "held"]
    assert told[-1].wait_ms == 29_999


def test_only_whom_the_file_names_steals_and_only_from_the_token_they_saw() -> None:
    assert reason(request("steal", TOKEN, holder="o1")) == "steal-not-permitted"
    assert reason(request("steal", TOKEN, holder="o1", by="Bea@example.com")) == "steal-not-permitted"
    assert reason(request("steal", "5", holder="o1", by="bea@example.com")) == "stale-token"
    assert reason(request("steal", TOKEN, holder="o1", by="bea@example.com")) == "stolen"


def test_a_name_nobody_may_steal_where_nobody_is_named() -> None:
    nobody = msgspec.structs.replace(LIMITS, may_steal=())
    assert nobody.step(None, request("steal", TOKEN, by=""), NOW_MS)[1].reason == "facts-unusable"
    assert nobody.step(None, request("steal", TOKEN), NOW_MS)[1].reason == "steal-not-permitted"


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl_ms": 0}, {"ttl_ms": -60}, {"ttl_ms": 1.5}, {"ttl_ms": "30"}, {"ttl_ms": None}, {"ttl_ms": True}, {"ttl_ms": 2**40},
        {"lease": ""}, {"lease": 5}, {"lease": "a\n"}, {"may_steal": None},
        {"may_steal": [""]}, {"may_steal": "bea"}, {"may_steal": ["\x00"]},
        {"source": "chat"}, {"lease_until": 5},
    ],
)  # fmt: skip  # one case a piece
def test_limits_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    entry = {"guard": "lease", "lease": "e", "ttl_ms": 30_000, "may_steal": [], **wrong}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(entry, Lease)


@pytest.mark.parametrize("missing", ["lease", "ttl_ms", "may_steal"])
def test_no_limit_has_a_default(missing: str) -> None:
    entry = {"guard": "lease", "lease": "e", "ttl_ms": 30_000, "may_steal": []}
    del entry[missing]
    with pytest.raises(msgspec.ValidationError, match=missing):
        msgspec.convert(entry, Lease)


@pytest.mark.parametrize("ttl_ms", [0, -60, float("nan"), True])
def test_a_ttl_that_is_none_is_refused_in_code_too(ttl_ms: Any) -> None:
    with pytest.raises(ValueError, match="ttl"):
        Lease(lease="e", ttl_ms=ttl_ms, may_steal=())


@pytest.mark.parametrize("extra", ["ttl_ms", "lease_until", "body", "prompt", "reason", "token"])
def test_a_request_has_no_field_for_anything_else(extra: str) -> None:
    known = {"action": "acquire", "source": "lock-client", "holder": "h", "by": "w"}
    with pytest.raises(msgspec.ValidationError, match=extra):
        msgspec.convert({**known, extra: "1"}, LeaseRequest)


def test_no_two_things_have_one_key() -> None:
    keys = [
        Lease(lease=a, ttl_ms=1, may_steal=()).key(b) for a, b in (("a", "b"), ("ab", ""), ("a", "1:b"), ("a1:", "b"))
    ]
    assert len(set(keys)) == 4
    asked = LIMITS.asks(request(item="tenant-7"))
    assert isinstance(asked, Ask) and asked.key == LIMITS.key("tenant-7") != LIMITS.key()
