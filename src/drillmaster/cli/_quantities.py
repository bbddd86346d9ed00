"""Shares and spans as people write them on a command line."""

import re
from decimal import Decimal

import click

__all__ = ["Seconds", "Share"]


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
