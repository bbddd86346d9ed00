"""The policy: what is allowed, and which human document, owner and review date say so.

1. Limits have no defaults. A limit that is missing, not a number or out of range is refused where the file is read.
2. Every number has an owner: `source` names a human document (not a chat, a prompt or a model), `owner` a person or team,
   `review_by` a day after which the policy is stale.
3. The sentence that people read back is printed from the policy, never typed beside it.
"""

import re
from typing import Annotated, Any, Literal

import msgspec

from drillmaster.clock import parse_rfc3339

__all__ = ["GuardsFile", "Pin", "Policy", "names_a_model", "pin_problems", "seconds_text", "share_text"]

_NOT_A_DOCUMENT = (
    r"\b(prompt(?!.?payment)|chat|model|llm|gpt|chatgpt|completion|transcript|assistant)\b|^(prompt|chat|model)-"
)
_NO_NAME = r"\w+[-_:]+"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the numbers come from and how long they hold."""

    source: str
    owner: str
    review_by: str


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind: policy`. The entries of `gates` are decoded by the gate that each one names."""

    kind: Literal["policy"]
    version: Literal[1]
    source: str
    owner: str
    review_by: str
    gates: list[dict[str, Any]]
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | msgspec.UnsetType = msgspec.UNSET
    """How often one subject may be judged on new evidence; left out: any number of times, each of them counted."""

    @property
    def pin(self) -> Pin:
        return Pin(source=self.source, owner=self.owner, review_by=self.review_by)


class GuardsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind: guards`. The entries of `guards` are decoded by the guard that each one names."""

    kind: Literal["guards"]
    version: Literal[1]
    source: str
    owner: str
    reviewers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    review_by: str
    guards: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]

    @property
    def pin(self) -> Pin:
        return Pin(source=self.source, owner=self.owner, review_by=self.review_by)


def pin_problems(pin: Pin, *, now_ns: int) -> list[tuple[str, str, str]]:
    """Say what is wrong with a pin, as (field, found, wanted). `now_ns` is wall time."""
    problems = []
    if not pin.source.strip() or re.fullmatch(_NO_NAME, pin.source.strip()):
        problems.append(
            (
                "source",
                repr(pin.source) if pin.source.strip() else "nothing",
                "the name of the human document the numbers come from",
            )
        )
    elif names_a_model(pin.source):
        problems.append(("source", repr(pin.source), "a human document; text that a model wrote owns no number"))
    if not any(char.isalnum() for char in pin.owner):
        said = repr(pin.owner) if pin.owner.strip() else "nothing"
        problems.append(("owner", said, "the person or team that answers for the numbers"))
    end_ns = parse_rfc3339(f"{pin.review_by}T23:59:59Z")
    if end_ns is None:
        problems.append(("review_by", repr(pin.review_by), "a day such as 2027-02-28"))
    elif end_ns < now_ns:
        problems.append(
            ("review_by", f"{pin.review_by}, which has passed", "a review: read the numbers again and set a new day")
        )
    return problems


def names_a_model(text: str) -> bool:
    """Whether a text names a prompt, a chat or a model. What it does not name it may still be: a name proves nothing."""
    return re.search(_NOT_A_DOCUMENT, text, re.IGNORECASE) is not None


def share_text(ratio: float) -> str:
    """Write a ratio as people say it: 0.01 is "1 %", 0.0027 is "0.27 %"."""
    return f"{ratio * 100:.3g} %"


def seconds_text(seconds: float) -> str:
    """Write a span as people say it: 60 is "60 s", 900 is "15 min", 86,400 is "24 h", 604,800 is "7 days", 1.5 is "1.5 s"."""
    if seconds >= 172_800 and seconds % 86_400 == 0:
        return f"{seconds / 86_400:g} days"
    if seconds >= 7_200 and seconds % 3_600 == 0:
        return f"{seconds / 3_600:g} h"
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds / 60:g} min"
    return f"{round(seconds, 3):g} s"
