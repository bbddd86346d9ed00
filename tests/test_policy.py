import pytest

from drillmaster.clock import parse_rfc3339
from drillmaster.policy import Pin, pin_problems, seconds_text, share_text

NOW_NS = parse_rfc3339("2026-11-29T15:30:00Z") or 0
GOOD = {"source": "runbook-2026-11", "owner": "payments-oncall", "review_by": "2027-02-28"}


def test_a_pin_with_document_owner_and_day_is_sound() -> None:
    assert pin_problems(Pin(**GOOD), now_ns=NOW_NS) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", ""),
        ("source", "  "),
        ("source", "prompt-session-88"),
        ("source", "Chat transcript of Tuesday"),
        ("source", "written by a model"),
        ("source", "LLM notes"),
        ("source", "contract-"),
        ("source", "contract-PROMPT-88"),
        ("source", "contract-gpt-session"),
        ("source", "contract-chat-export-88"),
        ("owner", ""),
        ("owner", " "),
        ("owner", "\0"),
        ("owner", "???"),
        ("review_by", ""),
        ("review_by", "soon"),
        ("review_by", "2026-02-30"),
        ("review_by", "2026-11-28"),  # yesterday
        ("review_by", "28.02.2027"),
        ("review_by", "2027-02-28T00:00:00Z"),
    ],
)
def test_a_pin_that_pins_nothing_says_which_field(field: str, value: str) -> None:
    problems = pin_problems(Pin(**{**GOOD, field: value}), now_ns=NOW_NS)
    assert [p[0] for p in problems] == [field]


def test_the_review_day_itself_still_holds() -> None:
    assert pin_problems(Pin(**{**GOOD, "review_by": "2026-11-29"}), now_ns=NOW_NS) == []


@pytest.mark.parametrize(
    "source",
    [
        "contract-2026-q3",
        "runbook: remodelling of the API",
        "chatham-house-agreement",
        "contract-remodel-2026",
        "contract-prompt-payment-terms",
    ],
)
def test_a_human_document_with_an_innocent_name_is_taken(source: str) -> None:
    assert pin_problems(Pin(**{**GOOD, "source": source}), now_ns=NOW_NS) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (60, "60 s"),
        (900, "15 min"),
        (1.5, "1.5 s"),
        (0.025, "0.025 s"),
        (119, "119 s"),
        (130, "130 s"),
        (5400, "90 min"),
        (7200, "2 h"),
        (86_400, "24 h"),
        (90_000, "25 h"),
        (604_800, "7 days"),
        (172_860, "2881 min"),
    ],
)
def test_spans_read_as_people_say_them(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.01, "1 %"), (0.0027, "0.27 %"), (0, "0 %"), (0.9995, "100 %"), (1 / 3, "33.3 %")]
)
def test_shares_read_as_people_say_them(ratio: float, text: str) -> None:
    assert share_text(ratio) == text
