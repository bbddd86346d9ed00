"""Whether a plan makes sense, and its arithmetic against the policy. Pure: a plan in, problems and warnings out.

1. Load and faults go to loopback, unless the plan names the host, the owner who allowed it, until when and how much,
   and the command line repeats the host. The name is judged here; the connected address is judged at each connect.
2. One person, one seat. Seats that nobody holds make the run a rehearsal; one name in two seats is refused.
3. A budget of one in N needs N requests to be told at all. A budget in seconds must fit into its window.
4. Compression divides phases, the times of rules and the traffic period. Budgets and the user's patience stay in seconds:
   they are facts about people and clients, and do not shrink with a rehearsal.
5. What cannot work is a problem and is refused before anything starts; what can but should not is a warning.
"""

from drillmaster.sanity.budgets import allowed_failures, default_spend, least_requests, planned_requests
from drillmaster.sanity.checking import MAX_DRILL_S, MIN_EVERY_S, answer_problem, check, unnamed_seats, window_problem
from drillmaster.sanity.compressing import compress, fitting_factor, parse_factor
from drillmaster.sanity.permission import (
    empty_seats,
    fill_in,
    header_problems,
    is_loopback,
    parse_listen,
    permission_problems,
    seat_problems,
    split_url,
)
from drillmaster.sanity.shapes import Numbers, Sanity

__all__ = [
    "MAX_DRILL_S",
    "MIN_EVERY_S",
    "Numbers",
    "Sanity",
    "allowed_failures",
    "answer_problem",
    "check",
    "compress",
    "default_spend",
    "empty_seats",
    "fill_in",
    "fitting_factor",
    "header_problems",
    "is_loopback",
    "least_requests",
    "parse_factor",
    "parse_listen",
    "permission_problems",
    "planned_requests",
    "seat_problems",
    "split_url",
    "unnamed_seats",
    "window_problem",
]
