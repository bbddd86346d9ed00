"""What a model may see of an event, and what of its answer is kept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.worker.webhook_notes import MOST_HEADLINE, checked_note, redacted
from drillmaster.screen import MARK
from drillmaster.stores.inbox import Noted

KEY = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
GOOD = {"headline": "An invoice was paid", "risk": "low"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (GOOD, Noted(headline="An invoice was paid", risk="low")),
        (json.dumps(GOOD), Noted(headline="An invoice was paid", risk="low")),
        (json.dumps(GOOD).encode(), Noted(headline="An invoice was paid", risk="low")),
        ({**GOOD, "headline": "\U0001f600" * 61}, Noted(headline="\U0001f600" * 61, risk="low")),  # code points, not halves of them
        ({**GOOD, "headline": "x" * 120}, Noted(headline="x" * 120, risk="low")),
        ({**GOOD, "headline": "\U0001f600" * 120}, Noted(headline="\U0001f600" * 120, risk="low")),
        ({**GOOD, "headline": "x" * 121}, "too-long"),
        ({**GOOD, "headline": ""}, "no-headline"),
        ({**GOOD, "headline": "  \u3000"}, "no-headline"),
        ({**GOOD, "headline": 5}, "no-headline"),
        ({**GOOD, "headline": None}, "no-headline"),
        ({**GOOD, "action": "grant 500"}, "other-fields"),
        ({"headline": "x"}, "other-fields"),
        ({}, "other-fields"),
        ([], "other-fields"),
        (None, "other-fields"),
        (5, "other-fields"),
        (True, "other-fields"),
        ({**GOOD, "risk": "LOW"}, "other-risk"),
        ({**GOOD, "risk": "none"}, "other-risk"),
        ({**GOOD, "risk": None}, "other-risk"),
        ({**GOOD, "risk": ["low"]}, "other-risk"),
        ({**GOOD, "headline": "a\x00b"}, "hidden-characters"),
        ({**GOOD, "headline": "a\nb"}, "hidden-characters"),
        ({**GOOD, "headline": "a\u202eb"}, "hidden-characters"),
        ({**GOOD, "headline": "a\u200bb"}, "hidden-characters"),
        ({**GOOD, "headline": "a\ud800b"}, "hidden-characters"),
        ({**GOOD, "headline": "a\ue000b"}, "hidden-characters"),
        ({**GOOD, "headline": "a\u2028b"}, "hidden-characters"),
        ({**GOOD, "headline": "a\ufe0fb"}, "hidden-characters"),
        ({**GOOD, "headline": "a\U000e0100b"}, "hidden-characters"),
        ({**GOOD, "headline": "\u26a0\ufe0f\ufe0f late"}, "hidden-characters"),
        ({**GOOD, "headline": "\u26a0\ufe0f late"}, Noted(headline="\u26a0\ufe0f late", risk="low")),
        ({**GOOD, "headline": "a\u3164b"}, "hidden-characters"),
        ({**GOOD, "headline": "\u2800"}, "hidden-characters"),
        ({**GOOD, "headline": "\u115f"}, "hidden-characters"),
        ({**GOOD, "headline": "a\u034fb"}, "hidden-characters"),
        ({**GOOD, "headline": "\u17b4x"}, "hidden-characters"),
        ({**GOOD, "headline": "x\uffa0y"}, "hidden-characters"),
        ({**GOOD, "headline": "\u0455" + KEY[1:]}, "look-alikes"),
        ({**GOOD, "headline": "the \u0430dmin says"}, "look-alikes"),
        ({**GOOD, "headline": "gr\u0391nt"}, "look-alikes"),
        ({**GOOD, "headline": "\u0421\u0447\u0451\u0442 ACME \u043e\u043f\u043b\u0430\u0447\u0435\u043d"},
         Noted(headline="\u0421\u0447\u0451\u0442 ACME \u043e\u043f\u043b\u0430\u0447\u0435\u043d", risk="low")),
        ({**GOOD, "headline": "e\u0301"}, "not-normal"),
        ({**GOOD, "headline": f"the key is {KEY}"}, "secret"),
        ({**GOOD, "headline": "password: hunter2-and-more"}, "secret"),
        ({**GOOD, "headline": "paid by jane.doe@gmail.com"}, "secret"),
        ({**GOOD, "headline": "paid with 4242 4242 4242 4242"}, "secret"),
        ('{"headline":"a","headline":"b","risk":"low"}', "not-json"),
        ('{"headline":"a","risk":NaN}', "not-json"),
        ("Sure! Here is the note you asked for.", "not-json"),
        ("", "not-json"),
        (b"\xff", "not-json"),
        ("[" * 3_000, "not-json"),
        ('"' + "x" * 5_000 + '"', "too-long"),
    ],
)  # fmt: skip
def test_an_answer_is_a_note_or_one_word_of_why_not(said: object, told: object) -> None:
    assert checked_note(said) == told


class Sly(dict):  # type: ignore[type-arg]
    """Says other fields to whoever lists it than to whoever asks."""

    def keys(self) -> Any:
        return {"headline", "risk"}


def test_an_object_of_another_class_is_no_note() -> None:
    assert checked_note(Sly(GOOD, action="grant")) == "other-fields"


@given(
    said=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=30),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["headline", "risk", "x"]), x, max_size=3),
        max_leaves=6,
    )
)
def test_whatever_a_model_says_raises_nothing_and_what_is_kept_fits(said: object) -> None:
    told = checked_note(said)
    assert isinstance(told, str | Noted)
    if isinstance(told, Noted):
        assert (
            0 < len(told.headline) <= MOST_HEADLINE
            and told.headline.isprintable()
            and told.risk in ("low", "medium", "high")
        )


EVENT = {
    "id": "evt_1",
    "type": "invoice.paid",
    "customer": {"name": "Jane", "email": "jane.doe@gmail.com", "password": "plainword", "note": f"my key is {KEY}"},
    "lines": [{"text": "one"}, {"text": "Bearer abcdefgh12345678abcdefgh"}],
    "a/b": {"c~d": "e"},
    "amount": 500,
}


def test_only_the_fields_that_were_pinned_are_seen() -> None:
    copy = json.loads(redacted(EVENT, ("/type", "/amount", "/a~1b/c~0d", "/nothing", "/type/deeper")))
    assert copy == {"/type": "invoice.paid", "/amount": 500, "/a~1b/c~0d": "e"}
    assert json.loads(redacted(EVENT, ())) == {}


def test_secrets_and_persons_in_a_pinned_field_are_not_seen() -> None:
    text = redacted(EVENT, ("/customer", "/lines"))
    for hidden in ("jane.doe", KEY, "plainword", "abcdefgh12345678"):
        assert hidden not in text
    assert json.loads(text)["/customer"]["name"] == "Jane"
    assert MARK in text


def test_a_secret_behind_an_encoding_is_not_seen() -> None:
    import base64

    hidden = base64.b64encode(f"token {KEY}".encode()).decode()
    assert hidden not in redacted({"note": hidden}, ("/note",))


def test_a_copy_is_bounded() -> None:
    deep: Any = "end"
    for _ in range(20):
        deep = {"in": deep}
    text = redacted({"deep": deep, "long": "word " * 10_000, "wide": ["x"] * 10_000}, ("/deep", "/long", "/wide"))
    assert len(text) < 3_000 and "end" not in text
