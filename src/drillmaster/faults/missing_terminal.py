"""The fault `missing-terminal`."""

from drillmaster.dialects import Says
from drillmaster.faults import End, Frame, Script, Send
from drillmaster.faults._streams import Events, StreamFault

__all__ = ["MissingTerminal"]


class MissingTerminal(StreamFault, frozen=True, kw_only=True, tag="missing-terminal"):
    """Leave out the API's last word (`[DONE]`, `message_stop`), and end the stream in order.

    The reason why the model stopped goes through where it comes in an event of its own (chat completions, anthropic); where
    it is the last word itself (responses, gemini, ollama) it is gone with it.

    Breaks: readers that wait for the last word, and then say that all was lost; readers that never look for it.
    Looks like: a whole answer, to openai chat and anthropic (measured: nothing raised); responses have no completed event.
    Cannot show: an answer that is short (see clean-end).
    """

    seen = ("cut", "complete")
    needs = ("stream", "model")

    def strike(self, events: Events) -> Script:
        struck = False
        while (event := (yield from events.next())) is not None:
            said = events.says(event)
            if not said & Says.TERMINAL:
                yield Send(Frame(event), relayed=True)
                continue
            struck = True
            kept = events.cx.dialect.without_finish(event)
            if kept is not None:
                yield Send(Frame(kept))
        if struck and events.lost is None:
            yield Send(End())
