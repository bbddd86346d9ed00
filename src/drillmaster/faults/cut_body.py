"""The fault `cut-body`."""

from typing import Annotated, Literal

from msgspec import Meta

from drillmaster.faults import Close, Cx, Fault, Pass, Passed, Script

__all__ = ["CutBody"]


class CutBody(Fault, frozen=True, kw_only=True, tag="cut-body"):
    """Relay the real answer, then end the connection part way through its body, by RST or by FIN.

    An answer that is no longer than that passes whole, and has not met the fault.

    Breaks: clients that treat a short body as a whole one; parsers that are handed half a JSON text.
    Looks like: a status 200 and a body that is shorter than its framing says: `incomplete read`, `peer closed`.
    Cannot show: a stream that ends early by its framing's own rules (see clean-end): that one raises nothing.
    """

    group = "connection"
    hands_on = False
    seen = ("broken",)

    after_bytes: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="of the body, counted across chunks", examples=[60])
    ]
    how: Annotated[Literal["rst", "fin"], Meta(description="how the connection ends")] = "rst"

    def script(self, cx: Cx) -> Script:
        passed = yield Pass(until_bytes=self.after_bytes)
        if not (isinstance(passed, Passed) and passed.whole):
            yield Close(self.how)
