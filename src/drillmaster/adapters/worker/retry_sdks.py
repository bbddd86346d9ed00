"""The retry guard inside the SDKs of OpenAI and Anthropic: their `http_client=`, with their own retries off.

Retries nest: an SDK that tries three times around a guard that allows four calls makes twelve. So a client that retries by itself
is refused where it is made, and a retry of its own where it is sent (`nested-retries`): one call's options may have asked for it.
"""

import importlib
import ipaddress
import sys
import urllib.request
from collections.abc import Callable
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
    """Make the `http_client` for a client class of an SDK: its own kind, with its time limits and pools, through the guard.

    Without a `transport` the proxies of the environment are used, as the SDK does.
    """
    sdk = _sdk(client)
    is_async = hasattr(client, "__aenter__")
    kind = sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient
    if transport is not None:
        return kind(transport=retrying(transport, retries))
    # The SDK's client says by its own kind which library it is of: httpx before 2026, httpx2 since.
    library = importlib.import_module(_library(kind))
    made = library.AsyncHTTPTransport if is_async else library.HTTPTransport

    def transport_by(proxy: str | None) -> Any:
        return retrying(made(limits=sdk.DEFAULT_CONNECTION_LIMITS, proxy=proxy), retries)

    # A client that is given a transport leaves the environment aside.
    return kind(transport=transport_by(None), mounts=_mounts(urllib.request.getproxies(), transport_by))


def _mounts(proxies: dict[str, str], transport_by: Callable[[str | None], Any]) -> dict[str, Any]:
    """Lay out the environment's proxies by URL, as httpx does."""
    past = [one.strip() for one in proxies.get("no", "").split(",") if one.strip()]
    if "*" in past:
        return {}
    mounts = {
        f"{scheme}://": transport_by(url if "://" in url else f"http://{url}")
        for scheme in ("http", "https", "all")
        if (url := proxies.get(scheme))
    }
    for host in past if mounts else ():
        mounts[_pattern(host)] = transport_by(None)
    return mounts


def _pattern(host: str) -> str:
    if "://" in host:
        return host
    try:
        address = ipaddress.ip_address(host.partition("/")[0])
    except ValueError:
        return f"all://{host}" if host.lower() == "localhost" else f"all://*{host}"
    return f"all://[{host}]" if address.version == 6 else f"all://{host}"


def check_retries_off(client: Any) -> None:
    """Refuse an SDK's client that retries by itself. Raises Problem."""
    found = getattr(client, "max_retries", None)
    if type(found) is not int or found != 0:
        raise _nested(type(client).__name__, found)


def _sdk(client: type[Any]) -> Any:
    for one in client.__mro__:
        sdk = sys.modules.get(one.__module__.partition(".")[0])
        if hasattr(sdk, "DefaultHttpxClient"):
            return sdk
    raise Problem(
        client.__name__,
        found="a client of no SDK whose HTTP can be put around",
        wanted="one such as openai.OpenAI or anthropic.AsyncAnthropic",
        remedy="put the guard around its transport: docs/howto/retry-calls.md",
    )


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
