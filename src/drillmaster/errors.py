"""What can be wrong with what people hand us, and the four exit codes.

The codes never move. A verdict is a value and is not raised; what is raised here is broken input, wrong usage, or a part
of the drill itself that cannot go on.
"""

import re
from enum import IntEnum

__all__ = ["Aborted", "Exit", "Problem", "Refused", "one_line"]

# Controls of both blocks, line and paragraph separators, the marks that turn the direction of text around, and halves of
# surrogate pairs (a path that is no UTF-8): each can repaint a terminal, make one line look like two, or end a print.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"

_MOST_CHARS = 4_000


def one_line(text: str) -> str:
    """Make text safe for one line of a terminal: controls, direction marks and stray bytes become visible escapes."""
    if text.isprintable():  # none of them is
        return text
    return re.sub(_UNSAFE, lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS // 2]} … {text[-_MOST_CHARS // 2 :]}"


class Exit(IntEnum):
    """How every command ends."""

    PASS = 0
    FAIL = 1
    REFUSED = 2
    """Unusable, missing, stale, vacuous, wrong usage, internal error."""
    ABORTED = 3
    """A drill stopped by a stop condition, a signal or a person."""


class Problem(Exception):
    """Something a person can mend: where it is, what was found, what was wanted, what to do.

    `place` is a file with, where there is one, a JSON pointer or line (`eviction.yaml: /gates/0/max_fallback_s`,
    `timeline.jsonl:12`). `remedy` is one command or one edit. Values of class secret never go into any field. As text it
    is one line, whatever a path or a value in it holds, and a field of more than 4,000 characters is cut in its middle.
    """

    exit = Exit.REFUSED

    def __init__(self, place: str, *, found: str, wanted: str, remedy: str) -> None:
        self.place, self.found, self.wanted, self.remedy = map(_cut, (place, found, wanted, remedy))
        super().__init__(self.place, self.found, self.wanted, self.remedy)

    def __str__(self) -> str:
        return one_line(f"{self.place}: found {self.found}, wanted {self.wanted}; {self.remedy}")

    @classmethod
    def of(cls, said: str, *, place: str, wanted: str) -> "Problem":
        """The problem of a sentence such as `__str__` makes; `place` and `wanted` stand in where it says none."""
        where, is_one, rest = said.partition(": found ")
        where, rest = (where, rest) if is_one else ("", said)
        found, _, wants = rest.partition(", wanted ")
        wants, _, remedy = wants.partition("; ")
        return cls(where or place, found=found, wanted=wants or wanted, remedy=remedy or "correct it")


class Refused(Problem):
    """The input is readable and the answer is no: wrong seat, outside the window, no permission, nothing to judge."""


class Aborted(Problem):
    """The drill was stopped; its faults are lifted and what there is has been sealed."""

    exit = Exit.ABORTED
