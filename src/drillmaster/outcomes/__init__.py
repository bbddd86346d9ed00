"""What became of every request: the join of what users saw, what the wire saw and what the worker said.

1. Every started request ends in exactly one outcome. One without an end is `never_ended`; it does not vanish.
2. For what happened the wire decides. A worker's marks are cited, and contradicted where they are wrong.
3. An attempt belongs to a user's request, best first: by `traceparent` on both sides, by a nonce in the prompt, or because
   that request was the only one that could have been under way when the attempt began.
4. A good answer came from the primary when unfaulted bytes of the real upstream lie behind it, or a whole answer that a
   fault slowed and did not alter; and from a fallback when neither can. Attempts that began before the request was sent,
   or after it was over, cannot lie behind it; another model's answer, asked for once the fault had struck the first one's,
   is a fallback's though it came the same way. Where an attempt that belongs to nobody could, the path is unknown: the
   outcome is `ok`, and it is counted.
5. A stream that a fault broke gave the agent the beginning of an answer, and an answer that a fault changed ends as the
   API's own. A good answer to a user that may rest on one of these came from where its own text says (the plan's
   `fallback_matching`), or else the worker (`model_ok`, `fallback_engaged`, the last of them, by the request's id or because
   it was alone in flight). The beginning of a stream that was taken for an answer is `truncated`, and a failure, whatever
   the status. So is a fault's own half sentence; its own rubbish, and its own fluent words, that were taken for one are
   `degraded`. Where nobody says, the path is unknown: nobody is blamed, and nobody is believed.
6. A request that the user gave up on may still be under way inside the agent. For one more time limit it counts as such.
7. Times are nanoseconds since the run began, on the monotonic clock; a worker's marks come by wall time.
"""

from drillmaster.outcomes.joining import join, join_bare
from drillmaster.outcomes.shapes import (
    FAILED,
    OK,
    PROBE_TRACE,
    Attempt,
    CodeState,
    JoinedBy,
    Mark,
    Note,
    Outcome,
    Preflight,
    Request,
    RuleMet,
    Run,
    Span,
    Window,
)

__all__ = [
    "FAILED",
    "OK",
    "PROBE_TRACE",
    "Attempt",
    "CodeState",
    "JoinedBy",
    "Mark",
    "Note",
    "Outcome",
    "Preflight",
    "Request",
    "RuleMet",
    "Run",
    "Span",
    "Window",
    "join",
    "join_bare",
]
