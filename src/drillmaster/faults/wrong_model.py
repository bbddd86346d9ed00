"""The fault `wrong-model`."""

import json
import re
from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, rewrite

__all__ = ["WrongModel"]

# A quote inside a string is escaped, so that text of a model's cannot be taken for a field.
_MODEL = re.compile(rb'("(?:model|modelVersion)"\s*:\s*)"[^"\\]{0,256}"')


class WrongModel(Fault, frozen=True, kw_only=True, tag="wrong-model"):
    """Relay the real answer with another model's name in it, as after an eviction or a silent fallback of the provider's.

    Breaks: agents and evaluations that never compare the model that answered with the one that was asked for.
    Looks like: a good answer; `model` (Gemini: `modelVersion`) differs from the request's.
    Cannot show: another model's words (see weaker-answer).
    """

    group = "content"
    seen = ("complete",)
    needs = ("model",)

    model: Annotated[
        str, Meta(min_length=1, max_length=128, description="the name that is put in", examples=["another-model"])
    ]
    reads_answer: ClassVar[bool] = True

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        name = json.dumps(self.model).encode()
        yield from rewrite(cx, lambda text: _MODEL.sub(lambda m: m[1] + name, text))
