"""The fault `tool-duplicate-id`."""

from drillmaster.dialects import ToolCall
from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, read_asked, speak

__all__ = ["ToolDuplicateId"]


class ToolDuplicateId(Fault, frozen=True, kw_only=True, tag="tool-duplicate-id"):
    """Answer in the API's place with two calls of the first tool that is offered, both of one id.

    A request that offers no tool within its first 192 kB passes untouched. Ollama's calls have no
    id: there it is one call made twice.

    Breaks: agents that keep results by id, and send one result for two calls, which the API then refuses with a 400;
    tools with effects that run twice where the id was to make them idempotent.
    Looks like: a good answer with two calls. Every answer is one: an agent without a limit on turns goes round.
    Cannot show: one id in two answers.
    """

    group = "tools"
    seen = ("complete",)
    needs = ("tools",)

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        asked = yield from read_asked(cx, may_pass=True)
        if asked is not None and asked.tool is not None:
            call = ToolCall(id=f"call_{cx.rng.getrandbits(96):024x}", name=asked.tool, arguments="{}")
            yield from speak(cx, asked, tools=(call, call), finish="tool")
