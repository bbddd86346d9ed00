"""The fault matrix: every chosen fault against one agent, cell by cell, and in words what each of them reached.

1. A cell is one fault in one API and one way of asking (streamed, whole) that the agent was heard to use in the baseline; a
   fault of port or connection cannot be aimed and is one cell. What else was chosen is listed with why it is not run.
2. Each cell is an injection of its own: proven, lifted, seen gone, and the agent is back before the next begins. A cell that met
   too few requests for what it says is `not met`, never survived; one that failed anybody says so however few they were. An
   answer that met nothing, and is such as the agent gave without its model in the baseline too, is no part of the cell.
3. A request is judged where its end was the agent's own doing. What the lift ended is counted apart; one that waited for the lift
   longer than any other took is hung.
4. The words, by the users that met the fault. `hung`: one gave up, or waited for the lift. `answered with garbage`: one had half an
   answer, none in it, or what the fault itself had sent or made of it. `never engaged`: all failed; `engaged in part`: some.
   All were answered: `survived by fallback` where the primary had no part in one of the answers, `survived by retry` where it
   answered at a later attempt, `no fallback needed` where it answered the attempt that met the fault. `not told`: answered, and
   nobody says by whom.
5. A policy's share of failed requests is held against each cell by itself: a mean over cells would hide one in another. It is
   a share of those whose end is known, and of too few it is no pass.
6. The table is read from the sealed run and can be read again by anybody; nothing in it comes from memory.
"""

from drillmaster.matrix.cells import GROUPS, USUAL, choose, heard, lay_out, rules_of, why_not
from drillmaster.matrix.reading import exit_of, read
from drillmaster.matrix.shapes import (
    BAD,
    GOOD,
    UNSETTLED,
    Back,
    Cell,
    LeftOut,
    NotRun,
    Pair,
    Result,
    Table,
    Told,
    Wanted,
    Word,
)

__all__ = [
    "BAD",
    "GOOD",
    "GROUPS",
    "UNSETTLED",
    "USUAL",
    "Back",
    "Cell",
    "LeftOut",
    "NotRun",
    "Pair",
    "Result",
    "Table",
    "Told",
    "Wanted",
    "Word",
    "choose",
    "exit_of",
    "heard",
    "lay_out",
    "read",
    "rules_of",
    "why_not",
]
