"""The fault `tool-unknown`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.dialects import ToolCall
from drillmaster.faults import Cx, Fault, Script
from drillmaster.faults._answers import of_a_model, read_asked, speak

__all__ = ["ToolUnknown"]


class ToolUnknown(Fault, frozen=True, kw_only=True, tag="tool-unknown"):
    """Answer in the API's place with a call of a tool that nobody offered.

    A request that offers no tool within its first 192 kB passes untouched.

    Breaks: `TOOLS[call.name]`, which is a KeyError in your own code; dispatch by getattr, which may run what nobody meant.
    Looks like: a good tool call. Every answer is one: an agent without a limit on turns goes round.
    Cannot show: a known tool that is called where it should not be.
    """

    group = "tools"
    seen = ("complete",)
    needs = ("tools",)

    name: Annotated[str, Meta(min_length=1, max_length=64, description="the tool that is called")] = "no_such_tool"

    def script(self, cx: Cx) -> Script:
        if not of_a_model(cx):
            return
        asked = yield from read_asked(cx, may_pass=True)
        if asked is not None and asked.tool is not None:
            call = ToolCall(id=f"call_{cx.rng.getrandbits(96):024x}", name=self.name, arguments="{}")
            yield from speak(cx, asked, tools=(call,), finish="tool")
