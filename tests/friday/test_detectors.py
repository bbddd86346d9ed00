"""The plan's section `detectors`."""

import pytest

from drillmaster.errors import Problem
from drillmaster.friday.detectors import Detectors
from drillmaster.strict import load_as

GOOD = """
listen: 127.0.0.1:8060
receivers:
  - {form: alertmanager, name: am, path: /alerts, secret_env: ALERTS}
  - {form: pagerduty, name: pager, path: /pager, secret_env: PAGER}
  - form: slack
    name: chat
    path: /services
    secret_env: CHAT
    find: {pattern: '\\[FIRING:\\d+\\] (?P<rule>\\w+)', severity: sev2, resolved: RESOLVED}
  - form: log
    name: app
    file: logs/app.log
    find: {pattern: 'alert=(?P<rule>\\w+) severity=(?P<severity>\\w+)'}
  - {form: file, name: flag, file: alerts/tools, rule: ToolFailures, severity: sev2}
"""


def read(text: str) -> Detectors:
    return load_as(text.encode(), Detectors, place="plan", fmt="yaml")


def test_a_section_names_its_receivers() -> None:
    assert [one.name for one in read(GOOD).receivers] == ["am", "pager", "chat", "app", "flag"]


BAD = {
    "no receivers": "receivers: []",
    "an unknown form": "receivers: [{form: opsgenie, name: a, path: /a, secret_env: A}]",
    "no secret": "receivers: [{form: alertmanager, name: a, path: /a}]",
    "two of a name": GOOD + "  - {form: file, name: am, file: x, rule: R, severity: sev2}\n",
    "two of a path": GOOD + "  - {form: grafana, name: g, path: /alerts, secret_env: G}\n",
    "a path below another": GOOD + "  - {form: grafana, name: g, path: /alerts/g, secret_env: G}\n",
    "a path with a query": "receivers: [{form: alertmanager, name: a, path: '/a?b', secret_env: A}]",
    "no expression": "receivers: [{form: log, name: a, file: f, find: {pattern: '(', rule: R, severity: sev2}}]",
    "neither group nor word": "receivers: [{form: log, name: a, file: f, find: {pattern: 'x', rule: R}}]",
    "both group and word": "receivers: [{form: log, name: a, file: f, find: {pattern: '(?P<rule>x)', rule: R, severity: s}}]",
    "a group of another name": "receivers: [{form: log, name: a, file: f, find: {pattern: '(?P<rule>x)(?P<level>y)'}}]",
    "a port that is none": "listen: 127.0.0.1:70000\n" + GOOD.replace("listen: 127.0.0.1:8060\n", ""),
    "an unknown key": GOOD + "colour: red\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_section_that_cannot_be_listened_by_is_refused(name: str) -> None:
    with pytest.raises(Problem):
        read(BAD[name])
