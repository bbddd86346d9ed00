"""What the process answers to an order that cannot be carried out."""

import asyncio
from typing import Any, cast

import pytest

from drillmaster.backstage.stage import Stage, _obeyed
from drillmaster.errors import Problem


class Refusing:
    """A stage on which every order fails with this error."""

    def __init__(self, error: Exception) -> None:
        async def fail(order: dict[str, Any]) -> dict[str, Any]:
            raise error

        self.orders = {"inject": fail}
        self.broken = ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        # The proxy's own words have all four parts; a remedy is said once.
        (ValueError("rules/0/first: found 0, wanted at least 1; add one"), ("rules/0/first", "0", "at least 1", "add one")),
        (ValueError("no time left"), ("provider.inject", "no time left", "an order that can be carried out", "correct it")),
        (Problem("a", found="b", wanted="c", remedy="d"), ("a", "b", "c", "d")),
    ],
)  # fmt: skip
def test_an_order_that_is_refused_says_where_what_and_what_to_do(error: Exception, told: tuple[str, ...]) -> None:
    stage = Refusing(error)
    answer = asyncio.run(_obeyed(cast("Stage", stage), {"do": "inject"}))
    assert tuple(answer["error"][name] for name in ("place", "found", "wanted", "remedy")) == told
    assert stage.broken == ""


def test_an_error_of_our_own_spoils_the_evidence() -> None:
    stage = Refusing(RuntimeError("ours"))
    answer = asyncio.run(_obeyed(cast("Stage", stage), {"do": "inject"}))
    assert answer["error"]["found"] == stage.broken == "RuntimeError: ours"
