"""Shares and spans as people write them on a command line."""

import re
from decimal import Decimal

import click

from drillmaster.errors import Problem

__all__ = ["Seconds", "Share", "factor_of"]


class Share(click.ParamType[float]):
    """A share as people write it: 0.01 or "1 %". A bare 1 could mean either, and is refused."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", text)
        if match:
            ratio = float(Decimal(match[1]) / 100)  # 0.7 % is 0.007, which 0.7 / 100 in binary is not
        elif re.fullmatch(r"0(?:\.[0-9]+)?", text):
            ratio = float(text)
        else:
            hint = f'; for {text} percent write "{text} %"' if re.fullmatch(r"\d+(\.\d+)?", text) else ""
            self.fail(f'found {text!r}, wanted a share such as 0.01 or "1 %"{hint}', param, ctx)
        if not ratio < 1:
            self.fail(f"found {text!r}, wanted a share under 1: a budget of everything judges nothing", param, ctx)
        return ratio


class Seconds(click.ParamType[float]):
    """A span: 60s, 2m, 1.5s. The unit is not guessed."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|min|h)", str(value).strip())
        seconds = float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}[match[2]] if match else 0.0
        if not 0 < seconds <= 86_400:
            self.fail(f"found {value!r}, wanted a span over 0 with its unit, such as 60s or 2m", param, ctx)
        return seconds


def factor_of(text: str, *, instead: str = "") -> float:
    """Read `--compress 5x`; `instead` is a word that would do too. Raises Problem."""
    from drillmaster.sanity import parse_factor

    factor = parse_factor(text)
    if factor is None:
        raise Problem(
            "--compress",
            found=repr(text[:60]),
            wanted=f"{instead}, or a factor of at least 1 such as 5x"
            if instead
            else "a factor of at least 1 such as 5x",
            remedy=f"write --compress {instead or '10x'}",
        )
    return factor
