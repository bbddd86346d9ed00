"""What a policy may ask of one level of an interview, by name. Nothing here has a default: what is left out judges nothing."""

import re
from typing import Annotated, Any

import msgspec

from drillmaster.evidence.samples import OUTCOMES
from drillmaster.interviews import Time, limit_names
from drillmaster.strict import near

__all__ = ["Apdex", "Goodput", "LevelLimits", "Slo", "kinds_match"]

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]
_STATUS_KINDS = ("http_3xx", "http_4xx", "http_5xx")


class Slo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one call has to keep to be a good one for its user; at least one of these."""

    latency_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    service_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    ttfb_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    ttft_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    tpot_s: _Seconds | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if not self.within():
            raise ValueError("no span: give latency_s, ttft_s or another")

    def within(self) -> dict[str, float]:
        """Time to span."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name.removesuffix("_s"): span for name, span in given.items() if span is not msgspec.UNSET}


class Goodput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many calls keep an SLO, of all that were due: their share, and how many in a second."""

    slo: Slo
    min_ratio: Annotated[float, msgspec.Meta(gt=0, le=1)] | msgspec.UnsetType = msgspec.UNSET
    min_per_s: Annotated[float, msgspec.Meta(gt=0)] | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.min_ratio is msgspec.UNSET and self.min_per_s is msgspec.UNSET:
            raise ValueError("no limit: give min_ratio or min_per_s")


class Apdex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Satisfied calls and half of the tolerating ones, of all: within `t_s`, within four times that, and the rest or failed."""

    t_s: _Seconds
    min_score: Annotated[float, msgspec.Meta(gt=0, le=1)]


_Times: Any = msgspec.defstruct(
    "_Times",
    [
        (name.replace(".", "_"), Annotated[float, msgspec.Meta(gt=0, le=86_400)] | msgspec.UnsetType, msgspec.UNSET)
        for name in limit_names()
    ],
    rename={name.replace(".", "_"): name for name in limit_names()},
    kw_only=True,
    frozen=True,
    module=__name__,
)
"""A limit for each quantile of each time, as `interviews` names them."""


class LevelLimits(_Times, frozen=True, kw_only=True, forbid_unknown_fields=True):  # type: ignore[misc, call-arg]  # made above
    """What one level may cost. At least one of them; those that are left out judge nothing."""

    error_rate: _Share | msgspec.UnsetType = msgspec.UNSET
    """Share of calls without a good answer: 0.05, not 5."""
    error_rates: dict[str, _Share] | msgspec.UnsetType = msgspec.UNSET
    """The same by kind of failure: `timeout`, `http_429`, `http_5xx`."""
    drain_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    """Of the drain: from its start to its last end, whatever became of its calls."""
    goodput: Goodput | msgspec.UnsetType = msgspec.UNSET
    apdex: Apdex | msgspec.UnsetType = msgspec.UNSET
    max_requests: Annotated[int, msgspec.Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    """What the endpoint was sent for this level, with what it was sent again."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    """Of output in all, as the answers say."""
    min_tokens_per_s: Annotated[float, msgspec.Meta(gt=0)] | msgspec.UnsetType = msgspec.UNSET
    min_calls_per_s: Annotated[float, msgspec.Meta(gt=0)] | msgspec.UnsetType = msgspec.UNSET
    """Good ones."""

    def __post_init__(self) -> None:
        if all(getattr(self, name) is msgspec.UNSET for name in self.__struct_fields__):
            raise ValueError("no limit: give p95_s, error_rate or another")
        if self.error_rates is not msgspec.UNSET:
            if not self.error_rates:
                raise ValueError("error_rates: no kind of failure")
            for kind in self.error_rates:
                if kind not in OUTCOMES[2:] and not re.fullmatch(r"http_[3-5][0-9][0-9]", kind):
                    meant = near(kind, [*OUTCOMES[2:], "http_429", "http_503"])
                    raise ValueError(
                        f"error_rates: no failure is called {kind!r}" + (f"; did you mean {meant}?" if meant else "")
                    )

    def times(self) -> dict[tuple[Time, str], float]:
        """The limits on times that are set, by time and quantile."""
        given = {key: getattr(self, name.replace(".", "_")) for name, key in limit_names().items()}
        return {key: cap for key, cap in given.items() if cap is not msgspec.UNSET}

    def latencies(self) -> dict[str, float]:
        """Those on latencies, by the names of their fields."""
        return {f"{name}_s": cap for (time, name), cap in self.times().items() if time == "latency"}


def kinds_match(kind: str, found: str) -> bool:
    """Whether a failure is of that kind: `http_4xx` are all of 400 to 499."""
    return found == kind or (kind in _STATUS_KINDS and re.fullmatch(rf"{kind[:6]}\d\d", found) is not None)
