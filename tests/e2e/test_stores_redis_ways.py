"""Ways to a Redis: TCP, TLS, a user with rights of its own, another database."""

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import trustme

from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.stores import Store, decide, decide_async
from drillmaster.stores.opening import open_async_store, open_store
from tests.conftest import find_program
from tests.e2e.redislab import redis_server

pytestmark = [pytest.mark.e2e, pytest.mark.needs("redis-server")]

LIMITS = Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=30, burst=30)
CALL = OutboundCall(partner="acme", identity="prod")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def by_tls(folder: Path) -> Iterator[str]:
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    server.private_key_pem.write_to_path(str(folder / "key.pem"))
    server.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    port = free_port()
    program = find_program("redis-server")
    assert program is not None
    command = [program, "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--save", ""]
    command += ["--tls-cert-file", str(folder / "cert.pem"), "--tls-key-file", str(folder / "key.pem")]
    command += ["--tls-ca-cert-file", str(folder / "ca.pem"), "--tls-auth-clients", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
    try:
        yield f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={folder / 'ca.pem'}"
    finally:
        process.kill()
        process.wait()


def granted_within(store: Store, seconds: float = 10) -> int | None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        decision = decide(LIMITS, CALL, store)
        if decision.allowed:
            return decision.left
        time.sleep(0.05)
    raise AssertionError("never")


def test_over_tls_and_not_where_nobody_vouches_for_the_server(tmp_path: Path) -> None:
    with by_tls(tmp_path) as url:
        for _ in range(100):
            try:
                open_store(url).prepare()
                break
            except Exception:
                time.sleep(0.05)
        store = open_store(url, within_s=5)
        assert granted_within(store) == 29

        async def in_a_loop() -> int | None:
            several = open_async_store(url, within_s=5)
            try:
                return (await decide_async(LIMITS, CALL, several)).left
            finally:
                await several.close()

        assert asyncio.run(in_a_loop()) == 28
        stranger = open_store(url.partition("?")[0], within_s=5)
        assert decide(LIMITS, CALL, stranger).reason == "store-unavailable"
        store.close()


def test_over_tcp_in_both_kinds_of_worker() -> None:
    port = free_port()
    with redis_server("--save", "", "--port", str(port), "--bind", "127.0.0.1") as _:
        url = f"redis://127.0.0.1:{port}/0"
        store = open_store(url, within_s=5)
        store.prepare()
        assert decide(LIMITS, CALL, store).left == 29

        async def in_a_loop() -> int | None:
            several = open_async_store(url, within_s=5)
            try:
                return (await decide_async(LIMITS, CALL, several)).left
            finally:
                await several.close()

        assert asyncio.run(in_a_loop()) == 28
        store.close()


def test_a_user_who_may_only_what_is_needed() -> None:
    with redis_server() as server:
        open_store(server.url).prepare()
        with redis.Redis.from_url(server.url) as admin:
            admin.execute_command(
                "ACL", "SETUSER", "worker", "on", ">sesame", "~drillmaster:*", "-@all", "+evalsha", "+eval", "+get", "+time",
                "+exists", "+lindex", "+lrange", "+lpop", "+rpush", "+lset", "+del", "+set", "+pexpire",
            )  # fmt: skip  # words
            admin.execute_command("ACL", "SETUSER", "reader", "on", ">sesame", "~*", "-@all", "+get")
        url = server.url.replace("unix://", "unix://worker:sesame@")
        store = open_store(url, within_s=5)
        assert [decide(LIMITS, CALL, store).allowed for _ in range(31)] == [True] * 30 + [False]
        store.close()
        reader = open_store(server.url.replace("unix://", "unix://reader:sesame@"), within_s=5)
        assert decide(LIMITS, CALL, reader).reason == "store-unavailable"
        reader.close()


def test_another_database_is_another_store() -> None:
    with redis_server() as server:
        for number in (0, 5):
            store = open_store(f"{server.url}?db={number}", within_s=5)
            store.prepare()
            assert decide(LIMITS, CALL, store).left == 29
            store.close()
