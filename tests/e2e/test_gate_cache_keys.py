"""`drillmaster gate cache-keys` as people type it: a listing in a file, and a Redis that is read."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.gates._cases.cache_keys import CART, NORTH, SOUTH, key
from drillmaster.intake.blanks import template
from tests.e2e.redislab import Redis, redis_server

pytestmark = [pytest.mark.e2e, pytest.mark.needs("redis-server")]

POLICY = """
kind: policy
version: 1
source: cache-runbook
owner: Ada of the platform team
review_by: 2099-02-28
gates:
  - gate: cache-keys
    types: [{name: cart, version: 3, fields: [{name: cartId, kind: id}, {name: catalogVersion, kind: id}]}]
    tenants: [tenant_north_01, tenant_south_09]
    others: [{prefix: "lock:", what: lock, why: locks of the nightly export}]
    compare: [etag, lock, topic]
    min_keys: 2
    max_keys: 50000
    max_age_s: 3600
    hosts: []
"""


def judged(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DRILLMASTER_STATE": str(folder / "state"), **more}
    line = [sys.executable, "-m", "drillmaster", "gate", "cache-keys", *words, "--policy", "policy.yaml"]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "etags.txt").write_text('"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"\n')
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with redis_server() as one:
        yield one


@contextlib.contextmanager
def filled(server: Redis) -> Iterator[object]:
    import redis

    with contextlib.closing(redis.Redis(unix_socket_path=str(server.socket))) as client:
        client.flushall()
        for n in range(3_000):
            client.set(key((NORTH, SOUTH)[n % 2], f"cart_{n}"), b"{}")
        client.set("lock:nightly-export", b"1")
        client.xadd("carts", {"a": "b"})
        yield client
        client.flushall()


def test_a_redis_whose_keys_are_all_ours_passes_and_nothing_in_it_changes(folder: Path, server: Redis) -> None:
    with filled(server) as client:
        before = client.dbsize(), client.lastsave()  # type: ignore[attr-defined]
        said = judged(folder, "--redis", server.url, "--etags", "etags.txt")
        assert said.returncode == 0, said.stdout + said.stderr
        assert "3000 cache keys were read" in said.stdout
        assert (client.dbsize(), client.lastsave()) == before  # type: ignore[attr-defined]


def test_one_caption_among_three_thousand_fails_and_is_not_printed(folder: Path, server: Redis) -> None:
    with filled(server) as client:
        client.set("shared_grocery_cart_for_returning_user", b"{}")  # type: ignore[attr-defined]
        client.set(b"cart \xff", b"{}")  # type: ignore[attr-defined]
        said = judged(folder, "--redis", server.url, "--etags", "etags.txt", "--output", "sarif=out.sarif")
        assert said.returncode == 1, said.stdout + said.stderr
        assert "FAIL" in said.stdout and "grocery" not in said.stdout + said.stderr + (folder / "out.sarif").read_text()
        failed = [line for line in said.stdout.splitlines() if line.startswith("FAIL")]
        assert ["begins with a declared schema" in failed[0], "space" in failed[1]] == [True, True]


def test_a_lock_and_a_stream_named_after_a_key_fail(folder: Path, server: Redis) -> None:
    with filled(server) as client:
        client.set(f"lock:{key(NORTH, 'cart_1')}", b"1")  # type: ignore[attr-defined]
        client.xadd(key(NORTH, "cart_stream"), {"a": "b"})  # type: ignore[attr-defined]
        said = judged(folder, "--redis", server.url, "--etags", "etags.txt", "--json")
        assert said.returncode == 1, said.stdout + said.stderr
        red = {one["id"] for one in json.loads(said.stdout)["checks"] if one["status"] != "pass"}
        assert red == {"reuse.lock", "reuse.topic"}


def test_whoever_listens_on_the_name_of_a_key_does_not_hide_it(folder: Path, server: Redis) -> None:
    (folder / "policy.yaml").write_text(POLICY.replace("[etag, lock, topic]", "[]"))
    with filled(server) as client:
        client.set("shared_grocery_cart", b"{}")  # type: ignore[attr-defined]
        with client.pubsub() as listens:  # type: ignore[attr-defined]
            listens.subscribe("shared_grocery_cart")
            listens.get_message(timeout=5)
            said = judged(folder, "--redis", server.url)
        assert said.returncode == 1, said.stdout + said.stderr


def test_one_node_of_a_cluster_is_no_whole_listing(folder: Path) -> None:
    with redis_server("--cluster-enabled", "yes") as one:
        said = judged(folder, "--redis", one.url, "--etags", "etags.txt")
    assert said.returncode == 2 and "one node of a cluster" in said.stdout, said.stdout + said.stderr


def test_an_empty_redis_and_one_that_is_not_there_are_refused(folder: Path, server: Redis) -> None:
    empty = judged(folder, "--redis", f"{server.url}?db=5", "--etags", "etags.txt")
    assert empty.returncode == 2 and "0 cache keys were read" in empty.stdout
    gone = judged(folder, "--redis", "redis://127.0.0.1:1/0", "--etags", "etags.txt")
    assert gone.returncode == 2 and "no answer" in gone.stderr
    other = judged(folder, "--redis", "redis://192.0.2.7:6379/0", "--etags", "etags.txt")
    assert other.returncode == 2 and "another machine" in other.stderr


def test_over_tcp_a_password_comes_from_the_environment_alone(folder: Path) -> None:
    import redis

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as lent:
        port = lent.getsockname()[1]
    secret = "s3cret-of-the-test"
    with redis_server("--port", str(port), "--bind", "127.0.0.1", "--save", "") as server:
        with contextlib.closing(redis.Redis(unix_socket_path=str(server.socket))) as client:
            client.set(key(NORTH, "a"), b"1")
            client.set(key(SOUTH, "a"), b"1")
            client.xadd("carts", {"a": "b"})
            client.config_set("requirepass", secret)
        words = ("--redis", f"redis://127.0.0.1:{port}/0", "--etags", "etags.txt", "--locks", "etags.txt")
        without = judged(folder, *words, REDIS_PASSWORD="")
        assert without.returncode == 2 and "no answer (AuthenticationError)" in without.stderr
        wrong = judged(folder, *words, REDIS_PASSWORD="another")
        assert wrong.returncode == 2 and "another" not in wrong.stderr.replace("another machine", "")
        said = judged(folder, *words, REDIS_PASSWORD=secret)
        assert said.returncode == 0, said.stdout + said.stderr
        named = judged(folder, "--redis", f"redis://localhost:{port}/0", *words[2:], REDIS_PASSWORD=secret)
        assert named.returncode == 0, named.stdout + named.stderr
        shown = judged(folder, "--redis", f"redis://:{secret}@127.0.0.1:{port}/0", *words[2:])
        assert shown.returncode == 2 and secret not in shown.stdout + shown.stderr


def test_a_file_of_lines_is_judged_with_its_time(folder: Path) -> None:
    (folder / "keys.txt").write_text("".join(f"{key(NORTH, f'cart_{n}')}\n" for n in range(5)))
    (folder / "names.txt").write_text("carts\n")
    names = ("--etags", "etags.txt", "--locks", "names.txt", "--topics", "names.txt")
    now = ("--now", "2026-11-30T16:00:00Z")
    said = judged(folder, "keys.txt", *names, *now, "--taken-at", "2026-11-30T15:30:00Z")
    assert said.returncode == 0, said.stdout + said.stderr
    assert judged(folder, "keys.txt", *names, *now, "--taken-at", "2026-11-30T14:30:00Z").returncode == 2
    assert judged(folder, "keys.txt", *names, *now).returncode == 2
    assert judged(folder, "keys.txt", *now, "--taken-at", "2026-11-30T15:30:00Z").returncode == 2
    assert judged(folder, *names, *now).returncode == 2
    assert judged(folder, "keys.txt", "--redis", "unix:///nowhere", *names, *now).returncode == 2


def test_the_gate_is_listed_explained_and_has_a_schema_a_checklist_and_a_kit(folder: Path) -> None:
    def run(*words: str) -> str:
        line = [sys.executable, "-m", "drillmaster", "gate", *words]
        ran = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
        return ran.stdout

    assert "cache-keys" in run("list")
    assert "reuse" in run("explain", "cache-keys")
    assert json.loads(run("schema", "cache-keys"))["title"] == "Policy of the cache-keys gate"
    assert "wrong hit" in run("checklist", "cache-keys")
    assert "cache-keys" in run("selftest", "cache-keys")
    assert "cache-keys-policy.yaml" in template("cache-keys")
    assert CART.head == "cart-v3"
