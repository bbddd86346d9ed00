"""The page of what gates ask, made from `gates/asks/`: each check in words, and what answers each line of a contract."""

from drillmaster.gates import names
from drillmaster.gates._asks import Asks, asks, shared

__all__ = ["page"]


def page(made: str) -> str:
    """Write docs/reference/checks.md; `made` is the line that says where it comes from."""
    parts = [
        made,
        "",
        "# Checks",
        "",
        "What each check of each gate asks, why, and how it is mended. `drillmaster gate explain CHECK` prints the same. A `*` in "
        "an id stands for a name, such as that of a level or a file. Below a gate's checks stand the lines of its job's contract, "
        "each with the checks that answer it, or with the question that a person has to: `drillmaster gate checklist GATE` prints "
        "those.",
        "",
        "## every gate",
        "",
        *_checks(shared()),
    ]
    parts += _contract("every gate", shared())
    for name in names():
        book = asks(name)
        parts += ["", f"## {name}", "", *_checks(book), *_contract(name, book)]
    return "\n".join(parts) + "\n"


def _checks(book: Asks) -> list[str]:
    rows = [f"| `{one.id}` | {one.asks} {one.because} | {one.mend} |" for one in book.check]
    return ["| check | asks, and why | to mend it |", "|---|---|---|", *rows]


def _contract(name: str, book: Asks) -> list[str]:
    """The lines of a contract, each with what answers it; nothing where none is listed."""
    if not book.line:
        return []
    checked = sum(bool(line.checks) for line in book.line)
    told = f"From *{book.article}*: {len(book.line)} lines, {checked} of them answered by checks."
    return ["", f"### What answers its contract ({name})", "", told, "", *book.table()]
