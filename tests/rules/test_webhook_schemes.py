"""Webhooks of eight schemes: the specifications' own vectors, grammar to the letter, keys in rotation, bytes and nothing else."""

import base64
import hashlib
import hmac
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.rules.webhook_schemes import (
    LEAST_KEY_BYTES,
    SCHEMES,
    Key,
    check,
    event_id,
    header_names,
    read_key,
    same_digest,
    sign,
)

TABLE = json.loads((Path(__file__).parent / "webhook_schemes.cases.json").read_text("utf-8"))
CASES = TABLE["cases"]
NOW = 1_700_000_000
TEXT_KEY = "a-secret-of-at-least-24-bytes"
STANDARD_KEY = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def key_of(name: str) -> Key:
    text = TABLE["keys"][name]
    return read_key(text, standard=text.startswith(("whsec_", "whpk_")), place=name)


def ours(scheme: str) -> Key:
    return read_key(
        STANDARD_KEY if SCHEMES[scheme].asymmetric else TEXT_KEY, standard=SCHEMES[scheme].asymmetric, place="k"
    )


def pairs(headers: list[list[str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['scheme']}: {case['why']}" for case in CASES])
def test_a_case_of_the_table_is_what_it_says(case: dict[str, Any]) -> None:
    keys = [key_of(name) for name in case["keys"]]
    told = check(SCHEMES[case["scheme"]], pairs(case["headers"]), case["body"].encode("latin-1"), keys)
    assert (told.signature, told.time_s, told.message_id) == (case["is"], case.get("time_s"), case.get("id"))


@pytest.mark.parametrize("name", SCHEMES)
def test_every_row_says_where_it_and_its_tolerance_come_from(name: str) -> None:
    row = SCHEMES[name]
    assert row.source.startswith("https://") or name == "generic"
    assert (row.tolerance_s is None) == ("time" not in row.signed) and row.tolerance_source
    assert row.signature in header_names() and row.signature == row.signature.lower()
    # Where the signature covers no identifier, and the body holds none, its digest is the identifier.
    assert row.id_header is None or "id" in row.signed


# What a provider does, written by hand and by no code of ours.
def by_hand(scheme: str, body: bytes, key: bytes) -> list[tuple[bytes, bytes]]:
    stamp = str(NOW).encode()
    mac = lambda text: hmac.new(key, text, hashlib.sha256)  # noqa: E731
    if scheme in ("stripe", "generic"):
        name = b"stripe-signature" if scheme == "stripe" else b"x-provider-signature"
        return [(name, b"t=%b,v1=%b" % (stamp, mac(stamp + b"." + body).hexdigest().encode()))]
    if scheme == "github":
        return [(b"x-hub-signature-256", b"sha256=" + mac(body).hexdigest().encode())]
    if scheme == "pagerduty":
        return [(b"x-pagerduty-signature", b"v1=" + mac(body).hexdigest().encode())]
    if scheme == "shopify":
        return [(b"x-shopify-hmac-sha256", base64.b64encode(mac(body).digest()))]
    if scheme == "slack":
        return [
            (b"x-slack-request-timestamp", stamp),
            (b"x-slack-signature", b"v0=" + mac(b"v0:" + stamp + b":" + body).hexdigest().encode()),
        ]
    before = b"webhook-" if scheme == "standard" else b"svix-"
    signed = b"msg_1." + stamp + b"." + body
    return [
        (before + b"id", b"msg_1"),
        (before + b"timestamp", stamp),
        (before + b"signature", b"v1," + base64.b64encode(mac(signed).digest())),
    ]


BODIES = [
    b"",
    b'{"id":"evt_1"}',
    b"..\xff..",
    b"\xfe",
    b"\xef\xbb\xbf{}",
    b"\x1f\x8b\x08",
    b"a" * 70_000,
    "Grüße".encode(),
]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:12]))
def test_what_a_provider_signs_matches_over_its_bytes_and_over_no_others(name: str, body: bytes) -> None:
    key = ours(name)
    headers = by_hand(name, body, key.secret)
    assert check(SCHEMES[name], headers, body, [key]).signature == "matched"
    assert sorted(sign(SCHEMES[name], body, [key], time_s=NOW, message_id="msg_1")) == sorted(headers)
    for other in (body + b" ", body[:-1] if body else b"x", body.decode("utf-8", "replace").encode() + b""):
        if other != body:
            assert check(SCHEMES[name], headers, other, [key]).signature == "wrong"


def test_bytes_that_are_no_text_are_not_taken_for_the_mark_of_them() -> None:
    """A verifier that decodes first gives one MAC to both bodies."""
    key = ours("generic")
    headers = by_hand("generic", "\ufffd".encode(), key.secret)
    assert check(SCHEMES["generic"], headers, b"\xfe", [key]).signature == "wrong"


@pytest.mark.parametrize("name", SCHEMES)
def test_keys_rotate_old_or_new_first(name: str) -> None:
    body, key = b'{"id":"evt_1"}', ours(name)
    other = read_key(
        "whsec_" + base64.b64encode(b"z" * 32).decode()
        if SCHEMES[name].asymmetric
        else "another-secret-of-enough-bytes",
        standard=SCHEMES[name].asymmetric,
        place="k",
    )
    headers = by_hand(name, body, key.secret)
    for keys in ([other, key], [key, other], [other, other, key]):
        assert check(SCHEMES[name], headers, body, keys).signature == "matched"
    assert check(SCHEMES[name], headers, body, [other]).signature == "wrong"
    assert check(SCHEMES[name], headers, body, []).signature == "wrong"
    assert check(SCHEMES[name], headers, body, [key] * 9).signature == "wrong"  # more keys than may be


@pytest.mark.parametrize("name", ["stripe", "generic", "pagerduty", "standard", "svix"])
def test_any_of_several_signatures_counts(name: str) -> None:
    body, key = b'{"id":"evt_1"}', ours(name)
    old = Key(b"o" * 32)
    for keys in ([old, key], [key, old], [old, key, old]):
        headers = sign(SCHEMES[name], body, keys, time_s=NOW, message_id="msg_1")
        assert check(SCHEMES[name], headers, body, [key]).signature == "matched"
    assert (
        check(SCHEMES[name], sign(SCHEMES[name], body, [old] * 3, time_s=NOW, message_id="m"), body, [key]).signature
        == "wrong"
    )


GOOD = hmac.new(TEXT_KEY.encode(), b"%d.{}" % NOW, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (f"t={NOW},v1={GOOD}", "matched"),
        (f"v1={GOOD},t={NOW}", "matched"),  # no order is promised
        (f"t={NOW},v1={'0' * 64},v1={GOOD}", "matched"),
        (f"t={NOW},v1={GOOD},v1={'0' * 64}", "matched"),
        (f"t={NOW},v1={GOOD},v0={'1' * 64}", "matched"),  # another version, as test events have
        (f"t={NOW},v1={GOOD},__proto__=1", "matched"),  # a part that nobody knows
        (f"t={NOW}, v1={GOOD}", "malformed"),
        (f"t= {NOW},v1={GOOD}", "malformed"),
        (f"t={NOW},t={NOW},v1={GOOD}", "malformed"),
        (f"t={NOW},v1={GOOD},t={NOW}", "malformed"),
        (f"t=1,v1={GOOD},t={NOW}", "malformed"),  # the last one wins nothing
        (f"v1={GOOD}", "malformed"),
        (f"t={NOW}", "malformed"),
        (f"t={NOW},v1=", "malformed"),
        (f"t={NOW},v1={GOOD.upper()}", "malformed"),
        (f"t={NOW},v1={GOOD[:-1]}", "malformed"),
        (f"t={NOW},v1={GOOD}0", "malformed"),
        (f"t={NOW},v1=0x{GOOD[2:]}", "malformed"),
        (f"t=000{NOW},v1={GOOD}", "malformed"),
        (f"t=0{NOW},v1={GOOD}", "malformed"),
        (f"t=00,v1={GOOD}", "malformed"),
        (f"t={hex(NOW)},v1={GOOD}", "malformed"),
        (f"t={NOW}.0,v1={GOOD}", "malformed"),
        (f"t=1.7e9,v1={GOOD}", "malformed"),
        (f"t=+{NOW},v1={GOOD}", "malformed"),
        ("t=" + "".join(chr(0x660 + int(c)) for c in str(NOW)) + f",v1={GOOD}", "malformed"),  # Arabic digits
        (f"t={NOW},v1=\u00e9{GOOD[1:]}", "malformed"),
        (f"t={NOW},v1={GOOD},", "malformed"),
        (f",t={NOW},v1={GOOD}", "malformed"),
        (f"t={NOW};v1={GOOD}", "malformed"),
        (f"t={NOW},v1={GOOD}\x00", "malformed"),
        ("t=1,v1=deadbeef", "malformed"),
        ("nonsense", "malformed"),
        ("=", "malformed"),
        ("t" * 5_000, "malformed"),
        (f"t={NOW}," + ",".join([f"v1={GOOD}"] * 20), "malformed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["stripe", "generic"])
def test_a_header_of_pairs_is_read_to_the_letter(name: str, value: str, told: str) -> None:
    headers = [(SCHEMES[name].signature, value.encode("utf-8"))]
    assert check(SCHEMES[name], headers, b"{}", [ours(name)]).signature == told


@pytest.mark.parametrize(
    "headers", [[("stripe-signature", "t=1")], [b"x"], [(b"a",)], [None], [(b"stripe-signature", 5)]]
)
def test_headers_of_another_type_are_malformed(headers: Any) -> None:
    assert check(SCHEMES["stripe"], headers, b"{}", [ours("stripe")]).signature == "malformed"


@given(
    name=st.sampled_from(sorted(SCHEMES)),
    values=st.lists(st.binary(max_size=200), min_size=3, max_size=3),
    body=st.binary(max_size=50),
)
def test_whatever_comes_is_told_and_never_matches(name: str, values: list[bytes], body: bytes) -> None:
    row = SCHEMES[name]
    names = [one for one in (row.signature, row.time, row.id_header) if one is not None]
    told = check(row, list(zip(names, values, strict=False)), body, [ours(name)])
    assert told.signature in ("missing", "malformed", "wrong")


@given(
    name=st.sampled_from(sorted(SCHEMES)),
    body=st.binary(min_size=1, max_size=60),
    at=st.integers(0),
    bit=st.integers(0, 7),
)
def test_one_changed_bit_of_a_body_is_seen(name: str, body: bytes, at: int, bit: int) -> None:
    key = ours(name)
    headers = sign(SCHEMES[name], body, [key], time_s=NOW, message_id="m")
    changed = bytearray(body)
    changed[at % len(body)] ^= 1 << bit
    assert check(SCHEMES[name], headers, bytes(changed), [key]).signature == "wrong"


def test_an_asymmetric_signature_is_checked_by_any_of_several_public_keys() -> None:
    private, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    text = lambda one: "whpk_" + base64.b64encode(one.public_key().public_bytes_raw()).decode()  # noqa: E731
    keys = [read_key(text(one), standard=True, place="k") for one in (other, private)]
    said = base64.b64encode(private.sign(b"m.%d.{}" % NOW))
    headers = [(b"webhook-id", b"m"), (b"webhook-timestamp", b"%d" % NOW), (b"webhook-signature", b"v1a," + said)]
    row = SCHEMES["standard"]
    assert check(row, headers, b"{}", keys).signature == "matched"
    assert check(row, headers, b"{ }", keys).signature == "wrong"
    assert check(row, headers, b"{}", keys[:1]).signature == "wrong"
    assert check(row, headers, b"{}", [ours("standard")]).signature == "wrong"  # a secret checks no v1a


@pytest.mark.parametrize(
    ("text", "standard", "found"),
    [
        ("", False, "nothing"),
        ("x" * 23, False, "23 bytes"),
        ("x" * 513, False, "513 bytes"),
        ("secret with\na line end in it", False, "characters"),
        (" leading-blank-leading-blank", False, "blanks"),
        ("\u00e9" * 30, False, "characters"),
        (None, False, "nothing"),
        ("whsec_", True, "neither"),
        ("x" * 40, True, "neither"),
        ("whsec_" + base64.b64encode(b"x").decode(), True, "1 bytes"),  # a library takes it
        ("whsec_" + base64.b64encode(b"x" * 23).decode(), True, "23 bytes"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), True, "65 bytes"),
        ("whsec_not/base64!!" + "A" * 30, True, "no base64"),
        ("whsk_" + base64.b64encode(b"x" * 64).decode(), True, "private"),
        ("whpk_" + base64.b64encode(b"x" * 31).decode(), True, "31 bytes"),
    ],
)  # fmt: skip
def test_a_key_that_is_none_is_refused_and_not_shown(text: Any, standard: bool, found: str) -> None:
    with pytest.raises(Problem) as raised:
        read_key(text, standard=standard, place="WEBHOOK_SECRET")
    assert found in raised.value.found and raised.value.place == "WEBHOOK_SECRET"
    assert not text or len(text) < 8 or text[-8:] not in str(raised.value)


def test_a_key_of_24_bytes_is_one_and_is_shown_by_nobody() -> None:
    key = read_key("0123456789abcdefghijklmn", standard=False, place="k")
    assert len(key.secret) == LEAST_KEY_BYTES == 24
    assert "0123" not in repr(key) + str(key) and repr(key) == "Key(hmac)"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert read_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", standard=True, place="k").secret[:2] == b"1\xf2"
    unpadded = "whsec_" + base64.b64encode(b"x" * 25).decode().rstrip("=")
    assert read_key(unpadded, standard=True, place="k").secret == b"x" * 25


def known(name: str, document: object, body: bytes = b"{}") -> str | None:
    key = ours(name)
    checked = check(SCHEMES[name], sign(SCHEMES[name], body, [key], time_s=NOW, message_id="msg_9"), body, [key])
    return event_id(SCHEMES[name], checked, body, document)


@pytest.mark.parametrize(
    ("name", "document", "told"),
    [
        ("stripe", {"id": "evt_1"}, "evt_1"),
        ("stripe", {"id": 1}, None),
        ("stripe", {"id": True}, None),
        ("stripe", {"id": None}, None),
        ("stripe", {"id": ""}, None),
        ("stripe", {"id": "   "}, None),
        ("stripe", {"id": "a\nb"}, None),
        ("stripe", {"id": "a\u202eb"}, None),
        ("stripe", {"id": "x" * 255}, "x" * 255),
        ("stripe", {"id": "x" * 256}, None),
        ("stripe", {}, None),
        ("stripe", None, None),
        ("stripe", ["id"], None),
        ("slack", {"event_id": "Ev1", "id": "other"}, "Ev1"),
        ("pagerduty", {"event": {"id": "01CH"}}, "01CH"),
        ("pagerduty", {"event": "01CH"}, None),
        ("standard", {"id": "evt_1"}, "msg_9"),
        ("svix", {}, "msg_9"),
        ("github", {"id": "evt_1"}, "sha256:" + hashlib.sha256(b"{}").hexdigest()),
        ("shopify", {"id": "evt_1"}, "sha256:" + hashlib.sha256(b"{}").hexdigest()),
    ],
)  # fmt: skip
def test_an_event_is_known_by_what_its_signature_covers(name: str, document: object, told: str | None) -> None:
    assert known(name, document) == told


def test_two_bodies_of_one_event_are_told_apart_and_a_restated_one_is_not() -> None:
    digest = lambda name, body: same_digest(SCHEMES[name], body, json.loads(body))  # noqa: E731
    first, again, other = (
        b'{"id":"e","amount":5,"pending_webhooks":2}',
        b'{"id":"e","amount":5,"pending_webhooks":1}',
        b'{"id":"e","amount":6,"pending_webhooks":2}',
    )
    assert digest("stripe", first) == digest("stripe", again) != digest("stripe", other)
    assert digest("generic", first) != digest("generic", again)
    assert digest("stripe", b'{"id":"e"}') != digest("stripe", b'{"id": "e"}')  # other bytes, and nothing restated


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00" * 32,
        b"\x01" + b"\x00" * 31,
        b"\xec" + b"\xff" * 30 + b"\x7f",
        b"\x00" * 31 + b"\x80",
        b"\x01" + b"\x00" * 30 + b"\x80",
        b"\xee" + b"\xff" * 30 + b"\x7f",
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    ],
)
def test_a_public_key_under_which_anybody_signs_is_none(raw: bytes) -> None:
    """A point of small order: a signature of nothing fits many texts, without any private key."""
    with pytest.raises(Problem, match="anybody could sign"):
        read_key("whpk_" + base64.b64encode(raw).decode(), standard=True, place="k")


def test_a_secret_of_zeros_is_none() -> None:
    """What a file or a device gives that is empty, written in base64: everybody has that key."""
    with pytest.raises(Problem, match="zeros"):
        read_key("whsec_" + base64.b64encode(bytes(32)).decode(), standard=True, place="k")
    with pytest.raises(Problem, match="zeros"):
        read_key("0" * 64, standard=False, place="k")
