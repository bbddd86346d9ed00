"""What a real Alertmanager sends to chats and pagers: the same alert by every way, and the pager's key is the group's."""

import hashlib
import hmac
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drillmaster.rules.alerts import Injection, Looked, Wanted, match
from drillmaster.verdict import AtLeast, Exact
from tests.e2e.alertlab import SECRET, Sink, alertmanager, listening, post, until

pytestmark = [pytest.mark.e2e, pytest.mark.needs("prometheus-alertmanager")]

PAGER = "a-signing-secret-of-the-test-0123456789"
DELIVERIES = Path(__file__).parent.parent / "detectors" / "deliveries"
RECEIVERS: list[dict[str, Any]] = [
    {"form": "alertmanager", "name": "am", "path": "/alerts", "secret_env": "ALERTS"},
    {"form": "pagerduty", "name": "pager", "path": "/pager", "secret_env": "PAGER"},
    {
        "form": "slack",
        "name": "chat",
        "path": "/services",
        "secret_env": "ALERTS",
        "find": {"pattern": r"\[(?P<state>FIRING|RESOLVED)[^\]]*\] (?P<rule>\w+).*?(?P<severity>sev\d)"},
    },
]
MORE = """\
    slack_configs:
      - {{api_url: {listener}/services/{secret}, channel: alerts, send_resolved: true}}
    pagerduty_configs:
      - {{url: {sink}, routing_key: 0123456789abcdef0123456789abcdef}}
"""
ROUTE = "  group_by: [alertname]\n  group_wait: 500ms\n  group_interval: 1s\n"


def test_one_alert_by_webhook_chat_and_pager_and_its_acknowledgement(tmp_path: Path) -> None:
    sink, events = Sink(), Sink()
    try:
        with listening(tmp_path, RECEIVERS, PAGER=PAGER) as listener:
            more = MORE.format(listener=listener.url, secret=SECRET, sink=events.url)
            with alertmanager(tmp_path, listener.url, sink.url, route=ROUTE, more=more) as manager:
                injected_ns = listener.ns()
                manager.put(starts_s=0, instance="a")
                until(lambda: {row["receiver"] for row in listener.rows("alert_received")} == {"am", "chat"})
                triggered = until(lambda: events.got[0][1] if events.got else None)
                # what Alertmanager tells PagerDuty is what PagerDuty tells us
                event = json.loads(DELIVERIES.joinpath("pagerduty-acknowledged.json").read_text())
                event["event"]["data"]["incident_key"] = triggered["dedup_key"]
                time.sleep(0.3)
                event["event"]["occurred_at"] = datetime.now(UTC).isoformat()
                body = json.dumps(event).encode()
                mac = hmac.new(PAGER.encode(), body, hashlib.sha256).hexdigest()
                assert post(f"{listener.url}/pager", body, {"X-PagerDuty-Signature": f"v1={mac}"}) == 200
                manager.put(starts_s=-1, ends_s=0, instance="a")
                until(
                    lambda: (
                        {row["receiver"] for row in listener.rows("alert_received") if row["state"] == "resolved"}
                        == {"am", "chat"}
                    )
                )
            rows = [row for row in listener.rows("alert_received") if row["state"] == "firing"]
            assert {(row["rule"], row["severity"]) for row in rows} == {("ToolFailures", "sev2")}
            alerts, acks = listener.told()
            injection = Injection(run="R", window="w", injected_ns=injected_ns)
            looked = Looked(from_ns=0, until_ns=listener.ns())
            for receivers in ((), ("am",), ("chat",)):
                found = match(
                    alerts, acks, injection, Wanted(rule="ToolFailures", least="sev2", receivers=receivers), looked
                )
                assert isinstance(found.delay, Exact) and 0.5 <= found.delay.value < 1.5
                if receivers != ("chat",):
                    assert isinstance(found.ack, Exact) and 0.2 < found.ack.value < 2
                else:
                    assert isinstance(found.ack, AtLeast)  # a message has no key that a pager knows
            assert SECRET not in listener.events.read_text()
    finally:
        sink.close()
        events.close()
