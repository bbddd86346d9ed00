"""`drillmaster store`, `quota report` and `quota bounce`, over real stores."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.kits.quota import Bounced
from tests.e2e.redislab import redis_server
from tests.e2e.storelab import servers

pytestmark = [pytest.mark.e2e, pytest.mark.needs("postgres"), pytest.mark.needs("redis-server")]


def drillmaster(*args: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", *args], capture_output=True, text=True, timeout=90, env={**os.environ}
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        where = f"sqlite:{tmp_path / 'quota.db'}"
        assert drillmaster("store", "prepare", where)[0] == 0
        yield where
    else:
        with servers(request.param) as server:
            yield server.url


def test_workers_that_are_killed_leave_buckets_that_remain(url: str) -> None:
    code, said = drillmaster("quota", "bounce", url, "--workers", "3", "--json")
    told = json.loads(said)
    assert code == 0 and told["holds"], said
    assert told["killed"] == told["started"] == 3 and told["left_after"] < told["left_before"] <= 100
    # A grant whose worker was killed before it could say so is nobody's; there are at most as many as workers.
    assert 200 - 3 <= told["granted"] <= 200


def test_a_store_that_forgets_fails_the_bounce() -> None:
    base = {"cap": 200, "killed": 2, "started": 2, "unavailable": 0}
    assert Bounced(**base, granted=200, left_before=90, left_after=89).holds
    assert not Bounced(**base, granted=300, left_before=90, left_after=89).holds
    assert not Bounced(**base, granted=150, left_before=90, left_after=199).holds


def test_a_store_that_is_not_prepared_is_refused_by_both(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    code, said = drillmaster("quota", "bounce", f"sqlite:{path}", "--workers", "1")
    assert code == 2 and "store check" in said, said
    code, said = drillmaster("store", "check", f"sqlite:{path}")
    assert code == 2 and "store prepare" in said, said


def test_check_says_that_it_answers_and_writes_nothing(url: str) -> None:
    code, said = drillmaster("store", "check", url, "--within", "5s", "--json")
    told = json.loads(said)
    # The lab's own PostgreSQL is started without fsync, and that is told.
    assert (code, told["keeps"]) == ((1, False) if url.startswith("postgres") else (0, True)), said
    assert told["answer_us"] > 0 and told["how"]


def test_check_fails_a_redis_that_keeps_nothing_or_throws_keys_away() -> None:
    import redis

    with redis_server("--save", "", "--appendonly", "no") as server:
        assert drillmaster("store", "check", server.url)[0] == 2
        assert drillmaster("store", "prepare", server.url)[0] == 0
        code, said = drillmaster("store", "check", server.url, "--within", "5s")
        assert code == 1 and "IT DOES NOT KEEP" in said and "appendonly" in said
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        code, said = drillmaster(
            "store", "check", server.url, "--within", "5s"
        )  # to a worker it gives no answer either
        assert code == 2 and "allkeys-lru" in said and "CONFIG SET maxmemory-policy noeviction" in said
        assert drillmaster("store", "prepare", server.url)[0] == 2


def line(at: str, event: str, **more: Any) -> str:
    return json.dumps({"t": f"2026-11-30T{at}Z", "event": event, **more}) + "\n"


def decision(at: str, allowed: bool, reason: str, **more: Any) -> str:
    return line(at, "guard_decision", guard="quota", allowed=allowed, reason=reason, **{"partner": "maps-api", **more})


def test_the_report_tells_by_partner_what_the_last_hour_brought(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    log.write_text(
        decision("11:00:00", False, "over-cap", limit="requests")  # an hour and more ago
        + decision("11:30:00", True, "within-quota")
        + decision("11:30:01", False, "over-burst", limit="requests") * 3
        + decision("11:30:02", False, "store-unavailable")
        + decision("11:30:02", False, "a model's own words")
        + decision("11:31:00", True, "within-quota", partner="mail", sampled=0.1)
        + line("11:32:00", "partner_limited", partner="maps-api", status=429)
        + line("11:32:00", "guard_decision", guard="retry", allowed=True, reason="pinned-status")
        + line("11:32:01", "user_request", id="u1")
        + decision("12:00:01", False, "over-cap")  # after the time that is asked about
        + '{"t":"2026-11-30T11:33:00Z","event":"guard_decision","gua\n'
    )
    code, said = drillmaster("quota", "report", str(log), "--since", "1h", "--now", "2026-11-30T12:00:00Z", "--json")
    told = json.loads(said)
    assert code == 1 and told["unusable"] == 1
    assert told["partners"] == [
        {
            "partner": "maps-api", "limited": 1, "granted": 1, "granted_estimated": False,
            "denied": {"over-burst of requests": 3, "store-unavailable": 1, "a reason of nobody's": 1},
        },
        {"partner": "mail", "limited": 0, "granted": 10, "granted_estimated": True, "denied": {}},
    ]  # fmt: skip  # rows
    code, said = drillmaster("quota", "report", str(log), "--since", "10m", "--now", "2026-11-30T12:00:00Z")
    assert code == 2 and "no decision of a quota in that time" in said  # nothing looked at is no good news
    assert "model's own" not in said


def test_a_report_without_a_429_is_good_news_where_all_of_it_could_be_read(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    log.write_text(decision("11:30:00", True, "within-quota"))
    asked = ("quota", "report", str(log), "--now", "2026-11-30T12:00:00Z")
    code, said = drillmaster(*asked)
    assert code == 0 and "maps-api: 0 answered 429, 0 denied here, 1 granted" in said
    log.write_text(decision("11:30:00", True, "within-quota") + decision("11:30:00", True, "within-quota")[:60] + "\n")
    code, said = drillmaster(*asked)
    assert code == 2 and "1 lines that may be some cannot be read" in said


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        code, said = drillmaster("quota", "report", str(path))
        assert code == 2 and str(path) in said, said
