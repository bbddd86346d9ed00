"""The control socket: the verbs of the wire proxy's, with flags in the place of faults.

`GET /state`, `POST /inject`, `/renew`, `/lift`, `/quit` on a Unix socket of mode 0600; a client of another uid than ours and
root's is not heard. Every error body is `{"error": ...}`.
"""

import os
from typing import Annotated, Any, Protocol

import msgspec

from drillmaster.errors import Problem
from drillmaster.flags.board import Conflict
from drillmaster.flags.doors import Asked, Client, Reply, said
from drillmaster.friday.flags import MAX_FLAGS, Switched
from drillmaster.strict import load_as

__all__ = ["Control", "Inject", "Lift", "Renew"]

Window = Annotated[str, msgspec.Meta(pattern=r"\A[ -~\u00a1-\uffff]{1,120}\Z")]
"""Its name goes into every line of evidence that it is the window of."""


class Inject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: Window
    flags: Annotated[tuple[Switched, ...], msgspec.Meta(min_length=1, max_length=MAX_FLAGS)]
    ttl_s: float


class Renew(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: Window
    ttl_s: float


class Lift(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: Window
    why: str = "ordered"


class Driven(Protocol):
    """What the socket can have done. Each returns what the answer's body says."""

    def state(self) -> dict[str, Any]: ...

    def inject(self, order: Inject) -> dict[str, Any]:
        """Raises Conflict, Problem, ValueError, OSError (the evidence could not be written: nothing was put on)."""

    def renew(self, order: Renew) -> dict[str, Any] | None:
        """None: that window is not on any more."""

    def lift(self, order: Lift) -> dict[str, Any]: ...

    def quit(self) -> dict[str, Any]: ...

    def failed(self, error: Exception) -> None: ...


class Control:
    """Serves orders of the conductor's."""

    def __init__(self, driven: Driven) -> None:
        self._driven = driven

    def serve(self, client: Client, asked: Asked) -> Reply | None:
        driven = self._driven
        try:
            match asked.method, asked.path:
                case "GET", "/state":
                    return said(200, driven.state())
                case "POST", "/inject":
                    return said(200, driven.inject(load_as(asked.body, Inject, place="order", fmt="json")))
                case "POST", "/renew":
                    renewed = driven.renew(load_as(asked.body, Renew, place="order", fmt="json"))
                    return said(404, {"error": "that window is not on"}) if renewed is None else said(200, renewed)
                case "POST", "/lift":
                    return said(200, driven.lift(load_as(asked.body, Lift, place="order", fmt="json")))
                case "POST", "/quit":
                    return said(200, driven.quit())
        except Conflict as conflict:
            return said(409, {"error": str(conflict)})
        except (Problem, msgspec.DecodeError, ValueError) as error:
            return said(400, {"error": str(error)})
        except OSError as error:
            return said(507, {"error": f"evidence cannot be written: {error.strerror or error}"})
        except Exception as error:  # noqa: BLE001 - it must not hold the caller
            driven.failed(error)
            return said(500, {"error": f"an error of ours: {error!r}"[:500]})
        orders = "GET /state, POST /inject, /renew, /lift, /quit"
        return said(404, {"error": f"no such order; {orders} (pid {os.getpid()})"})
