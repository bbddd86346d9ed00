"""The fault `tool-bad-json`."""

from drillmaster.dialects import ToolCall
from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, read_asked, speak

__all__ = ["ToolBadJson"]


class ToolBadJson(Fault, frozen=True, kw_only=True, tag="tool-bad-json"):
    """Answer in the API's place with a call of the first tool that is offered, whose arguments are JSON cut in two.

    Where an API carries arguments as a value (anthropic, gemini, ollama, without a stream), they are the broken text as a
    string. A request that offers no tool within its first 192 kB passes untouched.

    Breaks: `json.loads(call.function.arguments)` outside of any `try`; agents that run a tool with half of its arguments.
    Looks like: a good tool call, finish reason and all. Every answer is one: an agent without a limit on turns goes round.
    Cannot show: arguments that are JSON and do not fit the schema.
    """

    group = "tools"
    seen = ("complete",)
    needs = ("tools",)

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        asked = yield from read_asked(cx, may_pass=True)
        if asked is not None and asked.tool is not None:
            call = ToolCall(id=f"call_{cx.rng.getrandbits(96):024x}", name=asked.tool, arguments='{"query": "the first')
            yield from speak(cx, asked, tools=(call,), finish="tool")
