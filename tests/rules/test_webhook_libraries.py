"""Our verifier beside the providers' own libraries: what they sign matches here, and where they differ is written down."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
import standardwebhooks
import stripe
import svix
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards.webhook import Delivery, Webhook
from drillmaster.rules.webhook_schemes import SCHEMES, check, read_key, sign

TEXT = "whsec_text-of-a-stripe-endpoint-secret"
STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STRIPE_KEY = read_key(TEXT, standard=False, place="k")
STANDARD_KEY = read_key(STANDARD, standard=True, place="k")

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=80)


def pairs(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("utf-8")) for name, value in headers.items()]


def ours(scheme: str, headers: dict[str, str], body: bytes, now_s: int | None = None) -> bool:
    """Decide as the terminator does, up to the signature and its time."""
    checked = check(SCHEMES[scheme], pairs(headers), body, [STRIPE_KEY if scheme == "stripe" else STANDARD_KEY])
    limits = Webhook(scheme=scheme, max_body_bytes=1_000_000, read_within_ms=1_000)
    facts = Delivery(
        path_known=True, method="POST", complete=True, signature=checked.signature, signed_s=checked.time_s
    )
    now_ms = int(time.time() * 1_000) if now_s is None else now_s * 1_000
    return limits.step(None, facts, now_ms)[1].reason == "undecided"


def by_stripe(header: str, body: Any) -> bool:
    try:
        return bool(stripe.WebhookSignature.verify_header(body, header, TEXT, 300))
    except stripe.SignatureVerificationError:
        return False


def by_standard(headers: dict[str, str], body: bytes, library: Any = standardwebhooks) -> bool:
    try:
        library.Webhook(STANDARD).verify(body, headers)
    except library.WebhookVerificationError:
        return False
    return True


@given(body=TEXTS)
def test_what_stripe_signs_matches_here_and_what_we_sign_matches_there(body: str) -> None:
    signed = stripe.WebhookSignature.generate_signature_header(body, TEXT)
    assert ours("stripe", {"Stripe-Signature": signed}, body.encode())
    [(_, value)] = sign(SCHEMES["stripe"], body.encode(), [STRIPE_KEY], time_s=int(time.time()))
    assert by_stripe(value.decode(), body)


@given(document=st.dictionaries(TEXTS, TEXTS, max_size=3), name=st.from_regex(r"\Amsg_[A-Za-z0-9]{1,30}\Z"))
def test_what_the_libraries_of_the_specification_sign_matches_here_and_the_other_way_round(
    document: dict[str, str], name: str
) -> None:
    body = json.dumps(document)
    now = datetime.now(tz=UTC)
    value = standardwebhooks.Webhook(STANDARD).sign(name, now, body)
    stamp = str(int(now.timestamp()))
    headers = {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": value}
    assert ours("standard", headers, body.encode())
    other = {f"svix-{n.partition('-')[2]}": v for n, v in headers.items()}
    assert svix.Webhook(STANDARD).sign(name, now, body) == value and ours("svix", other, body.encode())
    mine = {
        n.decode(): v.decode()
        for n, v in sign(SCHEMES["standard"], body.encode(), [STANDARD_KEY], time_s=int(stamp), message_id=name)
    }
    assert by_standard(mine, body.encode()) and by_standard(mine, body.encode(), svix)


def standard_headers(**changed: str) -> dict[str, str]:
    # Signed now: a run of all tests takes longer than a signature is taken.
    signed = sign(SCHEMES["standard"], b"{}", [STANDARD_KEY], time_s=int(time.time()), message_id="msg_1")
    return {**{n.decode(): v.decode() for n, v in signed}, **{n.replace("_", "-"): v for n, v in changed.items()}}


@pytest.mark.parametrize("library", [standardwebhooks, svix], ids=["standardwebhooks", "svix"])
@pytest.mark.parametrize("value", ["v1", "v1,a,b", "v1,AAA"], ids=["no-comma", "two-commas", "broken-base64"])
def test_a_malformed_header_is_told_here_and_is_an_exception_there(library: Any, value: str) -> None:
    """Which is a 500 in a handler that catches what the library documents."""
    headers = standard_headers(webhook_signature=value)
    with pytest.raises(ValueError):
        by_standard(headers, b"{}", library)
    assert not ours("standard", headers, b"{}")


def test_a_body_that_is_no_text_is_checked_here_and_is_an_exception_there() -> None:
    body = b'{"name": "\xff"}'
    headers = {
        n.decode(): v.decode()
        for n, v in sign(SCHEMES["standard"], body, [STANDARD_KEY], time_s=int(time.time()), message_id="msg_1")
    }
    with pytest.raises(UnicodeDecodeError):
        by_standard(headers, body)
    assert ours("standard", headers, body)


def test_an_identifier_with_a_dot_and_a_key_of_one_byte_are_taken_there_and_refused_here() -> None:
    now = datetime.now(tz=UTC)
    value = standardwebhooks.Webhook(STANDARD).sign("msg.1", now, "{}")
    headers = {"webhook-id": "msg.1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": value}
    assert by_standard(headers, b"{}") and not ours("standard", headers, b"{}")
    assert standardwebhooks.Webhook("whsec_eA==") is not None
    with pytest.raises(Exception, match="1 bytes"):
        read_key("whsec_eA==", standard=True, place="k")


def test_a_time_with_a_fraction_is_normalised_there_and_refused_here() -> None:
    headers = standard_headers()
    headers["webhook-timestamp"] += ".0"
    assert by_standard(headers, b"{}") and not ours("standard", headers, b"{}")


def test_a_signature_of_the_future_is_taken_by_stripe_and_refused_here() -> None:
    later = int(time.time()) + 3_600
    signed = stripe.WebhookSignature.generate_signature_header("{}", TEXT, later)
    assert by_stripe(signed, "{}") and not ours("stripe", {"stripe-signature": signed}, b"{}")


def test_digits_of_another_script_are_taken_by_stripe_and_refused_here() -> None:
    stamp = int(time.time())
    signed = stripe.WebhookSignature.generate_signature_header("{}", TEXT, stamp)
    arabic = "".join(chr(0x660 + int(c)) for c in str(stamp))
    header = signed.replace(str(stamp), arabic, 1)
    assert by_stripe(header, "{}") and not ours("stripe", {"stripe-signature": header}, b"{}")


def test_a_signature_that_is_no_ascii_is_told_here_and_is_an_exception_there() -> None:
    header = f"t={int(time.time())},v1=\u00e9"
    with pytest.raises(TypeError):
        by_stripe(header, "{}")
    assert not ours("stripe", {"stripe-signature": header}, b"{}")
