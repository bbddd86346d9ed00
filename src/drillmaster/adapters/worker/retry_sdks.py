"""The retry guard inside the SDKs of OpenAI and Anthropic: their `http_client=`, with their own retries off.

Retries nest: an SDK that tries three times around a guard that allows four calls makes twelve. So a client that retries by itself
is refused where it is made, and a retry of its own where it is sent (`nested-retries`): one call's options may have asked for it.
"""

import importlib
from typing import Any, TypeVar

from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.errors import Problem

__all__ = ["check_retries_off", "guarded", "http_client"]

C = TypeVar("C")


def guarded(client: type[C], retries: Retries, *, transport: Any = None, **options: Any) -> C:
    """Make a client of an SDK whose calls go through the guard: `guarded(openai.OpenAI, retries, api_key=...)`.

    `transport` is what sends in the end, such as one through a company's proxy; None: the library's own. Raises Problem where the
    options ask for the SDK's own retries, or for another client of HTTP.
    """
    if options.setdefault("max_retries", 0) != 0:
        raise _nested(client.__name__, options["max_retries"])
    if options.get("http_client") is not None:
        raise Problem(
            client.__name__,
            found="an http_client of your own",
            wanted="one that sends through the guard",
            remedy="give its transport instead: guarded(CLIENT, retries, transport=...)",
        )
    made: C = client(**{**options, "http_client": http_client(client, retries, transport=transport)})
    check_retries_off(made)
    return made


def http_client(client: type[Any], retries: Retries, *, transport: Any = None) -> Any:
    """Make the `http_client` for a client class of an SDK: its own kind, with its time limits and pools, through the guard."""
    sdk = importlib.import_module(client.__module__.partition(".")[0])
    is_async = client.__name__.startswith("Async")
    kind = sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient
    if transport is None:
        # The SDK's client says by its own kind which library it is of: httpx before 2026, httpx2 since.
        library = importlib.import_module(_library(kind))
        made = library.AsyncHTTPTransport if is_async else library.HTTPTransport
        transport = made(limits=sdk.DEFAULT_CONNECTION_LIMITS)
    return kind(transport=retrying(transport, retries))


def check_retries_off(client: Any) -> None:
    """Refuse an SDK's client that retries by itself. Raises Problem."""
    found = getattr(client, "max_retries", None)
    if type(found) is not int or found != 0:
        raise _nested(type(client).__name__, found)


def _library(kind: type[Any]) -> str:
    for one in kind.__mro__:
        root = one.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return root
    raise Problem(
        kind.__name__,
        found="a client of neither httpx nor httpx2",
        wanted="one whose transport can be put around",
        remedy="give a transport: guarded(CLIENT, retries, transport=...)",
    )


def _nested(name: str, found: object) -> Problem:
    return Problem(
        name,
        found=f"max_retries {found!r}" if isinstance(found, int) else "no max_retries that can be read",
        wanted="0: the guard's calls would be multiplied",
        remedy=f"{name}(..., max_retries=0)",
    )
