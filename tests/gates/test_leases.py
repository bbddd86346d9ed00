"""The leases gate: names and never values, the row by which packets leave, and prompts that speak of holding."""

import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates._cases.leases import GOOD, LIMITS, image, lab, limits, names, paths, routes
from drillmaster.gates._leases_evidence import network, way_to
from drillmaster.gates._leases_words import hits_of, lock_word
from drillmaster.gates.leases import Evidence, Exempt, Hit, Leases, Route
from drillmaster.verdict import Check, conclude


def told(seen: Evidence, gate: Leases = LIMITS) -> dict[str, Check]:
    return {check.id: check for check in gate.checks(seen)}


def test_a_lab_that_is_apart_passes() -> None:
    assert {one.status for one in told(GOOD).values()} == {"pass"}
    assert conclude(tuple(LIMITS.checks(GOOD))) == "pass"


@pytest.mark.parametrize(
    "name",
    [
        "LOCK", "LOCK_URL", "APP_LOCK_TOKEN", "lockServiceToken", "LOCKTOKEN", "LOCKS_API", "REDLOCK_URL", "PGLOCK_DSN",
        "DISTLOCK2", "UNLOCK_KEY", "FENCING", "FENCING_TOKEN", "FENCE_KEY", "LEASE_TTL", "leaseUntil", "ETCD_PASSWORD",
        "ETCDCTL_USER", "DLM_TOKEN", "ZK_HOSTS", "ZOOKEEPER_AUTH", "CONSUL_HTTP_TOKEN", "CHUBBY_CELL", "MUTEX_URL", "lock",
        "Lock-Key", "PRODLOCKPASSWORD", "APPFENCINGKEY", "MYLEASETOKEN", "DLMTOKEN", "CONSULTOKEN", "ZKPASSWORD", "REDISREDLOCKURL",
        "INTERLOCKS_DSN", "CLOCKLOCKURL", "\uff2c\uff2f\uff23\uff2b_URL", "L\u041eCK_URL",
    ],
)  # fmt: skip  # words
def test_a_name_of_a_locks_credential_is_found(name: str) -> None:
    assert lock_word(name)
    assert told(names(name))["lab-names"].status == "fail"
    assert told(image(names=(name,)))["image-names"].status == "fail"


@pytest.mark.parametrize(
    "name",
    [
        "BLOCKSIZE", "BLOCK_SIZE", "CLOCK_SKEW", "UNBLOCKED", "CLOCKS", "RELEASE", "PRESS_RELEASE", "PLEASE", "OFFENCE", "DEFENCE",
        "LOCALE", "LC_ALL", "DEADLOCK_TIMEOUT", "NUMLOCK", "CAPSLOCK", "LOCKDOWN_LEVEL", "LOCKER_SIZE", "WARLOCKS", "DATABASE_URL",
        "PATH", "", "_", "LO_CK", "CONSULTANT_NAME", "RELEASES", "BLOCKLIST", "DATABLOCKSIZE", "CLOCKSPEED", "RELEASENAME",
        "ZKSYNC_RPC", "NEWRELEASEDATE", "UNCONSULTED",
    ],
)  # fmt: skip  # words
def test_a_name_that_only_contains_such_letters_is_none(name: str) -> None:
    assert lock_word(name) == ""


def test_names_of_the_policys_own_are_found_and_let_go_whole() -> None:
    assert told(names("PROD_REDIS_URL"))["lab-names"].status == "fail"
    for other in ("prod_redis_url", "Prod_Redis_Url"):
        assert told(names(other))["lab-names"].status == "fail"
    allowed = limits(allow_names=("ETCD_VERSION", "LOCK_DEMO"))
    assert told(names("LOCK_DEMO"), allowed)["lab-names"].status == "pass"
    assert told(names("LOCK_DEMO_2"), allowed)["lab-names"].status == "fail"


ALL = ipaddress.ip_network("10.20.0.0/24")


@pytest.mark.parametrize(
    ("rows", "ways"),
    [
        ([], 0),
        ([Route(to="10.20.0.0/24", via="192.0.2.1")], 1),
        ([Route(to="10.0.0.0/8", via="192.0.2.1")], 1),
        ([Route(to="10.20.0.128/25", via="192.0.2.1")], 1),  # a part of it
        ([Route(to="10.20.0.7/32", via="192.0.2.1")], 1),
        ([Route(to="10.21.0.0/24", via="192.0.2.1")], 0),
        ([Route(to="::/0", via="fe80::1")], 0),
        ([Route(to="0.0.0.0/0", via="192.0.2.1")], 1),
        ([Route(to="0.0.0.0/0", via="192.0.2.1"), Route(to="10.20.0.0/24", rejects=True)], 0),
        ([Route(to="0.0.0.0/0", via="192.0.2.1"), Route(to="10.20.0.0/25", rejects=True)], 1),  # half of it is open
        ([Route(to="10.0.0.0/8", via="192.0.2.1"), Route(to="10.20.0.0/16", rejects=True)], 0),
        ([Route(to="10.20.0.0/16", via="192.0.2.1"), Route(to="10.0.0.0/8", rejects=True)], 1),
        # of two for one network the smaller metric is asked
        ([Route(to="10.20.0.0/24", via="1.1.1.1", metric=100), Route(to="10.20.0.0/24", rejects=True, metric=1)], 0),
        ([Route(to="10.20.0.0/24", via="1.1.1.1", metric=1), Route(to="10.20.0.0/24", rejects=True, metric=100)], 1),
        ([Route(to="10.20.0.0/24", via="1.1.1.1"), Route(to="10.20.0.0/24", rejects=True)], 1),
        # a tunnel's table is a way, whatever the main one throws away
        ([Route(to="10.0.0.0/8", rejects=True), Route(to="0.0.0.0/0", dev="wg0", table="51820")], 1),
    ],
)
def test_the_row_by_which_packets_leave_is_found_as_the_kernel_finds_it(rows: list[Route], ways: int) -> None:
    assert len(way_to(ALL, rows, default_counts=True)) == ways


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("::ffff:10.20.0.7", "10.20.0.7/32"),
        ("::ffff:10.20.0.0/120", "10.20.0.0/24"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("10.20.0.7/24", "10.20.0.0/24"),
        ("fd00::7", "fd00::7/128"),
        ("::/0", "::/0"),
    ],
)
def test_an_address_of_ipv4_that_is_written_as_one_of_ipv6_is_reached_as_ipv4(said: str, meant: str) -> None:
    assert str(network(said)) == meant
    seen = lab(routes=(Route(to="10.20.0.0/16", via="192.0.2.1"),))
    found = told(seen, limits(lock_hosts=(said,)))["lock-route"].status
    assert found == ("pass" if ":" in meant else "fail")


def test_whether_the_default_route_counts_the_policy_says() -> None:
    seen = lab(routes=(Route(to="0.0.0.0/0", via="192.0.2.1"), Route(to="::/0", via="fe80::1")))
    assert told(seen)["lock-route"].status == "fail"
    assert told(seen, limits(default_route="does not count"))["lock-route"].status == "pass"
    near = routes(Route(to="10.0.0.0/7", via="192.0.2.1"), Route(to="10.20.0.0/23", via="192.0.2.1"))
    assert told(near, limits(default_route="does not count"))["lock-route"].status == "fail"


def test_a_lock_host_on_a_network_of_the_labs_own_is_one_more_finding() -> None:
    by_gateway = told(routes(Route(to="10.20.0.0/24", via="192.0.2.1")))
    on_link = told(routes(Route(to="10.20.0.0/24", dev="eth1")))
    assert (by_gateway["lock-route"].status, by_gateway["shared-network"].status) == ("fail", "pass")
    assert (on_link["lock-route"].status, on_link["shared-network"].status) == ("fail", "fail")
    assert "10.20.0.0/24 on the link (eth1)" in on_link["shared-network"].why


ADDRESS = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(ADDRESS, st.integers(0, 32), st.booleans(), st.integers(0, 3)), max_size=8), ADDRESS)
def test_of_one_address_it_is_the_longest_prefix_with_the_smallest_metric(
    rows: list[tuple[int, int, bool, int]], address: int
) -> None:
    """Against a search that asks every row bit by bit."""
    made = [
        Route(to=str(ipaddress.IPv4Network((base, size), strict=False)), rejects=no, metric=metric, via="1.1.1.1")
        for base, size, no, metric in rows
    ]
    fits = [
        (-size, metric, no)
        for base, size, no, metric in rows
        if size == 0 or base >> (32 - size) == address >> (32 - size)
    ]
    best = [one for one in fits if one[:2] == min(fits)[:2]] if fits else []
    target = ipaddress.IPv4Network((address, 32))
    assert bool(way_to(target, made, default_counts=True)) == any(not no for _, _, no in best)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Ask for the fencing_token first.", {"token"}),
        ("FencingToken: 7", {"token"}),
        ("fencing-token", {"token"}),
        ("ｆｅｎｃｉｎｇ ｔｏｋｅｎ", {"token"}),
        ("fen\u200bcing", {"token"}),
        ("f\u0435ncing t\u043eken", {"token"}),
        ("r\u0435n\u0435w", {"verb"}),
        ("set lease_until to now", {"token"}),
        ("a lease duration of 30 s", {"token"}),
        ("the lock holder", {"token"}),
        ("the lease's ttl is up to you", {"token"}),
        ("the lease\u2019s deadline", {"token"}),
        ("the duration of the lease", {"token"}),
        ("the holder of this lock", {"token"}),
        ("the length of the report", set()),
        ("the lessee's lease agreement", set()),
        ("renew", {"verb"}),
        ("Renewing it is fine", {"verb"}),
        ("r\u200benew", {"verb"}),
        ("steal the lock", {"verb"}),
        ("extend the current lease by 60 s", {"verb"}),
        ("the lease should be extended", {"verb"}),
        ("release this lock now", {"verb"}),
        ("please keep the hold alive", {"verb"}),
        ("take over the lease", {"verb"}),
        ("renewal of the lease", {"verb"}),
        ("extend the\nlease by a minute", {"verb"}),
        ("keep the\r\nlock", {"verb"}),
        ("press release notes", set()),
        ("tax extends over three years", set()),
        ("renewable energy export timeout", set()),
        ("stealth mode timed out", set()),
        ("subscription renewal reminders", set()),
        ("Summarise the redacted timeout log of the lock service.", set()),
        ("extend the report. The lock timed out", set()),
        ("keep the log of lock timeouts", set()),
        ("hold on", set()),
        ("self-defence", set()),
    ],
)
def test_what_in_a_prompt_speaks_of_tokens_and_of_holding(text: str, kinds: set[str]) -> None:
    found = list(hits_of(f"first\n{text}\n", "app/prompts/a.md"))
    assert {hit.kind for hit in found} == kinds
    assert all(hit.line == 2 for hit in found)


VERB = Hit(kind="verb", word="renew", file="app/prompts/subscriptions.md", line=4)
TOKEN = Hit(kind="token", word="fencing token", file="app/prompts/subscriptions.md", line=5)


def test_an_exception_takes_verbs_off_one_file_until_its_day_and_never_a_token() -> None:
    one = Exempt(path="app/prompts/subscriptions.md", until="2026-12-31", why="subscriptions are renewed there")
    gate = limits(exceptions=(one,))
    checks = told(paths(prompts={"hits": (VERB,)}), gate)
    assert checks["prompt-verbs"].status == checks["exceptions"].status == "pass"
    assert "1 lines excepted" in checks["prompt-verbs"].title
    assert told(paths(prompts={"hits": (VERB, TOKEN)}), gate)["prompt-tokens"].status == "fail"
    other = msgspec.structs.replace(VERB, file="app/prompts/other.md")
    assert told(paths(prompts={"hits": (VERB, other)}), gate)["prompt-verbs"].status == "fail"
    over = limits(exceptions=(msgspec.structs.replace(one, until="2026-11-29"),))
    assert told(paths(prompts={"hits": (VERB,)}), over)["prompt-verbs"].status == "fail"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("lock_hosts", ["etcd.prod.example"], "a name says nothing to a routing table"),
        ("lock_hosts", ["10.20.0.0/33"], "lock_hosts"),
        ("lock_hosts", [], "lock_hosts"),
        ("lab_hosts", [], "lab_hosts"),
        ("prompt_paths", [], "prompt_paths"),
        ("prompt_paths", ["app/locks/"], "the split is the review"),
        ("prompt_paths", ["../elsewhere"], "below the root"),
        ("prompt_paths", ["/etc"], "prompt_paths"),
        ("image", "maybe", "image"),
        ("min_names", 0, "min_names"),
        ("exceptions", [{"path": "a", "until": "soon", "why": "b"}], "until"),
    ],
)
def test_limits_that_judge_nothing_are_refused(field: str, value: object, said: str) -> None:
    entry = {**msgspec.json.decode(msgspec.json.encode(LIMITS)), field: value}
    with pytest.raises(Problem) as problem:
        strict.as_type(entry, Leases, place="policy.yaml")
    assert said in str(problem.value)


def test_an_address_with_bits_of_its_host_is_its_network() -> None:
    assert str(network("10.20.0.7/24")) == "10.20.0.0/24"
    assert network("10.20.0.7.example") is None
