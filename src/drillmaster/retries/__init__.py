"""Retries from the wire: how many attempts a user's request became, who sent them, what they waited for and what they cost.

1. An attempt belongs to the user's request that `outcomes` joined it to. Requests are counted where they met the drill: in
   the baseline, in a window, or in the recovery behind it. One without an attempt counts with none. Where attempts of that
   time belong to nobody, a number per request is "at least".
2. An attempt failed when its answer was 400 or over, never began, broke off, or ended short of its API's terminal state. One
   that its client left, at once when another beside it had brought the answer, is a hedge that was dropped, and no failure.
3. A failed attempt is followed by one attempt of its request at most: the first that starts when it is over. What follows
   tells the layer. `sdk`: its client says that it sends again (`x-stainless-retry-count` over 0). `above`: the client says
   that it does not (0), so that something above it tried again. `untold`: the client says nothing, and nobody guesses.
   `elsewhere`: it asks for another model, as a fallback at the same address does. `unread`: a fault struck before one of the
   two was read, so that nobody knows whether they ask for one model: a retry, or a fallback at the same address, and counted
   as neither. A tool's failure is followed by a tool's
   attempt, a model's by a model's. All else is a `call`: a request's first attempt, or the next step of an agent that takes
   several. An agent that swallows a failure and goes on with its next step looks like one that tries again; how many calls
   it makes when all is well stands in the baseline.
4. Load is attempts started in a stretch of time over users' requests due in it. Users ask on schedule, whatever became of
   their last request, so that loads compare. The storm factor of a stretch is its load over the baseline's. The stretches:
   baseline; a window; its return, the first `RETURN_S` behind the lift, or `RETURN_PERIODS` of the users' where that is
   longer; and the rest until the next injection or the end.
5. The gap behind an answer that asked for a wait runs from its first byte to the next attempt of the same request for the
   same model. It was kept when it falls short by a clock's grain at most, or by a second where a date told the wait, which
   has whole ones. Without a next attempt the client gave up; or its user did, when their time was over before the wait.
6. Where nothing was asked, a client's own pause runs from the end of the failed attempt to the retry that follows it. One
   `unread` attempt behind a failure may be a fallback; where a call has two or more, their pauses count too.
7. Tokens are billed again where a call had cost some already and is sent once more. What an answer says it cost and what
   is estimated from its bytes are summed apart. Tools (MCP) cost none. What attempts of nobody's cost stands beside them.
8. Only what passed the proxy is seen. A client that never connected, or was turned away below HTTP, made no attempt.
"""

from drillmaster.retries.accounting import account
from drillmaster.retries.findings import retry_findings
from drillmaster.retries.limits import retry_checks, retry_limit_problem
from drillmaster.retries.models import another_model, usual_models
from drillmaster.retries.shapes import (
    AT_ONCE_S,
    GRAIN_S,
    RETURN_PERIODS,
    RETURN_S,
    Accounting,
    Layers,
    Load,
    Nested,
    Pauses,
    Phase,
    Rates,
    Storm,
    Tokens,
    Waits,
)

__all__ = [
    "AT_ONCE_S",
    "GRAIN_S",
    "RETURN_PERIODS",
    "RETURN_S",
    "Accounting",
    "Layers",
    "Load",
    "Nested",
    "Pauses",
    "Phase",
    "Rates",
    "Storm",
    "Tokens",
    "Waits",
    "account",
    "another_model",
    "retry_checks",
    "retry_findings",
    "retry_limit_problem",
    "usual_models",
]
