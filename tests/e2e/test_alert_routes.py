"""Routes are walked as Alertmanager walks them: its own tool says where labels go, over random trees."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drillmaster.intake.alerting import read_facts
from drillmaster.rules.alert_delay import routes_of

pytestmark = [pytest.mark.e2e, pytest.mark.needs("amtool")]

LABELS = {"severity": ["sev1", "sev2", ""], "team": ["agents", "billing", ""], "env": ["staging", ""]}
EXPRESSIONS = ["sev[12]", "sev.", "a.*", ".+", ".*", "", "agents|billing", "stag"]


def matcher(dice: random.Random) -> str:
    label = dice.choice(list(LABELS))
    op = dice.choice(["=", "!=", "=~", "!~"])
    value = dice.choice(EXPRESSIONS if "~" in op else LABELS[label])
    return f'{label}{op}"{value}"' if dice.random() < 0.7 else f'{label} {op} "{value}"'


def route(dice: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    names.append(f"r{len(names)}")
    found: dict[str, Any] = {"receiver": names[-1]}
    style = dice.random()
    if style < 0.6:
        found["matchers"] = [matcher(dice) for _ in range(dice.randint(1, 2))]
    elif style < 0.8:
        found["match"] = {"team": dice.choice(LABELS["team"])}
    else:
        found["match_re"] = {"severity": dice.choice(EXPRESSIONS)}
    if dice.random() < 0.4:
        found["continue"] = True
    if depth:
        found["routes"] = [route(dice, depth - 1, names) for _ in range(dice.randint(0, 3))]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_labels_go_where_alertmanagers_own_tool_says(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    names = ["root"]
    tree = {"receiver": "root", "routes": [route(dice, 2, names) for _ in range(4)]}
    config = tmp_path / "alertmanager.yml"
    config.write_text(json.dumps({"route": tree, "receivers": [{"name": name} for name in names]}))
    (tmp_path / "prometheus.yml").write_text("rule_files: [rules.yml]\n")
    (tmp_path / "rules.yml").write_text("groups: [{name: g, rules: [{alert: A, expr: up == 0}]}]\n")
    facts = read_facts(tmp_path / "prometheus.yml", config, "A")
    seen = set()
    for _ in range(12):
        labels = {name: value for name, values in LABELS.items() if (value := dice.choice(values))}
        words = ["amtool", "config", "routes", "test", f"--config.file={config}"]
        done = subprocess.run(
            [*words, *(f"{name}={value}" for name, value in labels.items())], capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, done.stderr
        ours = [one.receiver for one in routes_of(facts.route, labels)]
        assert ",".join(ours) == done.stdout.strip(), labels
        seen.add(done.stdout.strip())
    assert len(seen) > 1  # the tree tells labels apart
