"""The fault `weaker-answer`."""

from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import read_asked, speak

__all__ = ["WeakerAnswer"]

_TEXT = (
    "That is a great question, and there are several things to consider here. In general, it depends on your needs and on "
    "your situation. Many people find that a balanced approach works well. I hope this helps!"
)


class WeakerAnswer(Fault, frozen=True, kw_only=True, tag="weaker-answer"):
    """Answer in the API's place with fluent words that answer nothing, complete and well-formed, whole or as a stream.

    The real model is not asked. `model` is the name in the answer; None: the one that was asked for.

    Breaks: everything that takes "no exception" or "not empty" for success, and every evaluation that only reads style.
    Looks like: a good answer. Only its content tells.
    Cannot show: how a real weaker model fails on your tasks; the words are always the same.
    """

    group = "content"
    hands_on = False
    seen = ("complete",)

    model: Annotated[str, Meta(min_length=1, max_length=128, description="the name in the answer")] | None = None
    asks_upstream: ClassVar[bool] = False
    words: ClassVar[str] = _TEXT

    def script(self, cx: Cx) -> Script:
        asked = yield from read_asked(cx)
        if asked is not None:
            yield from speak(cx, asked, text=_TEXT, model=self.model)
