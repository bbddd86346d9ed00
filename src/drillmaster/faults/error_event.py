"""The fault `error-event`."""

from typing import Annotated

from msgspec import Meta

from drillmaster.faults import End, Frame, Script, Send, request_id
from drillmaster.faults._streams import AfterEvents, Events, StreamFault

__all__ = ["ErrorEvent"]


class ErrorEvent(StreamFault, frozen=True, kw_only=True, tag="error-event"):
    """Say in the middle of a 200 that it failed, in a documented shape of the API, and end the stream.

    Shapes: `data-error` (chat completions), `flat`, `nested`, `failed` (responses), `event` (anthropic), and what the
    page of each dialect lists. None, or one that the API does not have: its usual one. An API that has none is passed.

    Breaks: openai chat raises APIError; responses raise APIError at `nested` and nothing at all at `flat` and `failed`;
    anthropic raises APIStatusError with a status_code of 200, which `>= 500` misses (measured).
    Looks like: half an answer, then an event that is an error; raw readers of the stream see nothing wrong.
    Cannot show: an error before the first word with a status of its own (see status, overloaded).
    """

    seen = ("error",)

    after_events: AfterEvents = None
    shape: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,39}$", description="how the API says it")] | None = None
    condition: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,39}$", description="which of the API's errors")] = (
        "overloaded"
    )

    def strike(self, events: Events) -> Script:
        cx = events.cx
        known = {shape.name for shape in cx.dialect.shapes}
        usual = cx.dialect.usual_shape("" if cx.request is None else cx.request.path)
        shape = self.shape if self.shape in known else usual
        if shape is None or not (yield from events.relay(self.after_events)):
            return
        for frame in cx.dialect.error_frames(shape, self.condition, request_id=request_id(cx)):
            yield Send(Frame(frame))
        yield Send(End())
