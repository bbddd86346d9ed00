"""A fence in front of an HTTP service: the newest token goes through, and what is refused says why."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.fence_header import HEADER, FenceMiddleware, fencing_headers
from drillmaster.stores import AsyncStore
from drillmaster.stores.opening import open_async_store, open_store

TOKEN = "1796088673521405"
NEWER = "1796088673521406"


class Service:
    """The middleware around an app that remembers what it was told."""

    def __init__(self, folder: Path, **more: Any) -> None:
        url = f"sqlite:{folder / 'fence.sqlite'}"
        if not more.pop("unprepared", False):
            open_store(url).prepare()
        self.store: AsyncStore = open_async_store(url, within_s=5)
        self.seen: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            self.seen.append(scope.get("state", {}).get("fencing_token"))
            await send({"type": "http.response.start", "status": 204, "headers": []})

        self.app = FenceMiddleware(app, self.store, **more)

    def __call__(
        self, *headers: tuple[str, str], method: str = "PUT", kind: str = "http", path: str = "/exports/7"
    ) -> tuple[Any, Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError("nobody reads the body")

        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        asyncio.run(self.app({"type": kind, "method": method, "path": path, "headers": raw}, receive, send))
        if sent[0]["type"] != "http.response.start":
            return sent[0]["type"], sent[0].get("reason")
        reason = json.loads(sent[1]["body"])["reason"] if len(sent) > 1 else None
        return sent[0]["status"], reason


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


def test_an_older_token_than_the_resource_saw_is_refused(service: Service) -> None:
    told = [service((HEADER, token)) for token in (TOKEN, TOKEN, NEWER, TOKEN, NEWER)]
    assert told == [(204, None), (204, None), (204, None), (412, "stale-token"), (204, None)]
    assert service.seen == [TOKEN, TOKEN, NEWER, NEWER]
    assert service((HEADER, TOKEN), path="/exports/8") == (204, None)


@pytest.mark.parametrize("value", ["", "0", "007", "+1", " 1", "1 ", "\xb2", "abc", "9" * 19, "9" * 5_000, "1, 2"])
def test_a_token_that_is_none_is_refused(service: Service, value: str) -> None:
    assert service((HEADER, value)) == (412, "token-unusable")
    assert service.seen == []


def test_no_token_and_two_are_refused(service: Service) -> None:
    assert service() == (412, "token-missing")
    assert service((HEADER, TOKEN), (HEADER.lower(), TOKEN)) == (412, "token-unusable")
    assert service.seen == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_only_reads_goes_through(service: Service, method: str) -> None:
    assert service(method=method) == (204, None)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "BREW"])
def test_whatever_else_needs_a_token(service: Service, method: str) -> None:
    assert service(method=method) == (412, "token-missing")


def test_a_websocket_is_closed(service: Service) -> None:
    assert service(kind="websocket") == ("websocket.close", "token-missing")


@pytest.mark.parametrize("named", [None, "", "a\x00", 5])
def test_what_nobody_can_name_is_refused(tmp_path: Path, named: Any) -> None:
    service = Service(tmp_path, resource=lambda scope: named)
    assert service((HEADER, TOKEN)) == (412, "resource-unnamed")


def test_a_store_that_does_not_answer_lets_nothing_through(tmp_path: Path) -> None:
    service = Service(tmp_path, unprepared=True)
    assert service((HEADER, TOKEN)) == (503, "store-unavailable")
    assert service.seen == []


def test_a_client_sends_a_token_as_it_was_given() -> None:
    assert fencing_headers(TOKEN) == {"Fencing-Token": TOKEN}
    with pytest.raises(ValueError, match="as the store gave it"):
        fencing_headers("007")


@pytest.mark.parametrize("path", ["/exports/7/", "//exports//7", "/exports/./7", "/exports/8/../7", "exports/7"])
def test_another_spelling_of_the_path_is_the_same_resource(service: Service, path: str) -> None:
    assert service((HEADER, NEWER)) == (204, None)
    assert service((HEADER, TOKEN), path=path) == (412, "stale-token")


def test_a_path_that_is_no_text_is_refused(service: Service) -> None:
    assert service((HEADER, TOKEN), path="/exports/\udcff") == (412, "resource-unnamed")
    assert service.seen == []
