"""Blanks that `init` asks for on a terminal, and what is wrong with an answer."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import click

__all__ = ["Questions", "asked_for", "wrong"]

Questions = Sequence[tuple[str, str]]
"""Pointer of a blank, and the question."""


def wrong(pointer: str, answer: str, known: Mapping[str, str]) -> str | None:
    """What is wrong with an answer, given those before; None where it will do."""
    from drillmaster.sanity import answer_problem

    taken = next((other for other, name in known.items() if "/seats/" in other and name == answer), None)
    if "/seats/" in pointer and taken:
        return f"{answer} is the {taken.rpartition('/')[2].capitalize()} already: one person, one seat"
    if pointer == "/target/dialect":
        from drillmaster import strict
        from drillmaster.ladder.bodies import DIALECTS

        if answer not in DIALECTS:
            meant = strict.near(answer, list(DIALECTS))
            return f"one of {', '.join(DIALECTS)}" + (f"; did you mean {meant}?" if meant else "")
    return answer_problem(pointer, answer)


def asked_for(
    examples: Mapping[str, str], questions: Questions, known: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Ask for a few blanks; an empty answer leaves one as it is, one that cannot be is asked for again."""
    answers: dict[str, str] = {}
    click.echo("An empty answer leaves the blank for later.", err=True)
    for pointer, question in questions:
        if pointer in known or (pointer == "/target/model" and answers.get("/target/dialect") == "plain"):
            continue
        hint = f" [such as {examples[pointer]}]" if examples.get(pointer) else ""
        while answer := click.prompt(f"{question}{hint}", default="", show_default=False, err=True).strip():
            found = wrong(pointer, answer, {**known, **answers})
            if found is None:
                answers[pointer] = answer
                break
            click.echo(f"  {found}", err=True)
    return answers
