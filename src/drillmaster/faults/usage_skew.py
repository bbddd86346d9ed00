"""The fault `usage-skew`."""

import re
from typing import Annotated, ClassVar

from msgspec import Meta

from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, rewrite

__all__ = ["UsageSkew"]

# A quote inside a string is escaped, so that text of a model's cannot be taken for a field.
_COUNT = re.compile(
    rb'("(?:prompt_tokens|completion_tokens|total_tokens|input_tokens|output_tokens|promptTokenCount|candidatesTokenCount|'
    rb'totalTokenCount|prompt_eval_count|eval_count)"\s*:\s*)([0-9]{1,12})\b'
)


class UsageSkew(Fault, frozen=True, kw_only=True, tag="usage-skew"):
    """Relay the real answer with its usage counts multiplied by `factor`, as another tokenizer would count.

    Breaks: budgets, quotas and cost reports that trust the counts; context windows that are cut by them.
    Looks like: a good answer. Each count is rounded for itself, so that a total may be one off its parts.
    Cannot show: counts that are missing; the proxy's own token cap sees the changed counts as well.
    """

    group = "content"
    seen = ("complete",)
    needs = ("model",)

    factor: Annotated[
        float, Meta(ge=0, le=1_000, description="1.3 is what a change of tokenizer can make", examples=[3])
    ]
    reads_answer: ClassVar[bool] = True

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        yield from rewrite(
            cx, lambda text: _COUNT.sub(lambda m: b"%b%d" % (m[1], round(int(m[2]) * self.factor)), text)
        )
