"""`drillmaster missions`, as it is typed, without an agent; and the page on missions, whose examples are read."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drillmaster.adapters.drill.artillery import translate
from drillmaster.cli.missions import command
from drillmaster.errors import Problem
from drillmaster.friday.missions import Missions, read_missions, section_problems
from drillmaster.strict import load_as

_PAGE = (Path(__file__).parents[2] / "docs/howto/synthetic-missions.md").read_text("utf-8")
_BLOCKS = re.findall(r"^```yaml\n(.*?)^```", _PAGE, re.M | re.S)
_PROFILE = """\
config:
  target: "https://staging.example.com"
  phases:
    - {duration: 900, arrivalRate: 50, rampTo: 200, name: "off"}
  variables: {tone: [calm, "no", "5", 5]}
scenarios:
  - weight: 2
    flow:
      - get: {url: "/health", headers: {X-A: "yes"}}
      - think: 1
      - post:
          url: "/agent/mission"
          json: {user_id: "{{ $uuid }}", n: "{{ $randomNumber(1, 9) }}", tone: "{{ tone }}", none: null, many: [], path: ""}
          capture: {json: $.id, as: id}
"""


def _typed(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_a_translated_profile_reads_as_the_missions_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "artillery.yml").write_text(_PROFILE)
    ran = _typed("translate", tmp_path / "artillery.yml")
    assert ran.exit_code == 0
    assert "112,500 missions in 900 s, to the target of the plan and not https://staging.example.com" in ran.stderr
    missions = translate(_PROFILE.encode(), place="artillery.yml", read=lambda name: b"").missions
    assert read_missions(ran.stdout.encode(), place="missions.yaml") == missions
    # The plan's load stands there as a comment, and is one.
    commented = re.sub(r"^# ?", "", "".join(re.findall(r"^#   .*\n", ran.stdout, re.M)), flags=re.M)
    section = load_as(commented.encode(), dict[str, Missions], place="plan", fmt="yaml")["missions"]
    assert list(section_problems(section, place="plan")) == []


def test_a_translated_profile_as_json(tmp_path: Path) -> None:
    (tmp_path / "artillery.yml").write_text(_PROFILE)
    said = json.loads(_typed("translate", tmp_path / "artillery.yml", "--json").stdout)
    assert (said["total"], said["seconds"], said["target"]) == (112_500, 900, "https://staging.example.com")
    assert said["missions"]["flows"][0]["weight"] == 2


def test_a_locust_file_is_told_where_it_goes(tmp_path: Path) -> None:
    (tmp_path / "locustfile.py").write_text("from locust import HttpUser\n")
    told = _typed("translate", tmp_path / "locustfile.py")
    assert isinstance(told.exception, Problem)
    assert "run: locust, file: " in told.exception.remedy


def test_a_profile_that_means_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "artillery.yml").write_text(_PROFILE.replace("$uuid", "uuid"))
    ran = _typed("translate", tmp_path / "artillery.yml")
    assert isinstance(ran.exception, Problem)
    assert re.search(r"artillery\.yml:13: found the unknown variable \{\{ uuid \}\}", str(ran.exception))
    assert ran.stdout == ""


@pytest.mark.parametrize(
    "words", [["try", "missing.yaml", "--url", "http://127.0.0.1:1"], ["try", "--url", "x"], ["translate"]]
)
def test_wrong_words_are_exit_2(words: list[str]) -> None:
    assert _typed(*words).exit_code == 2


def test_a_file_of_missions_that_cannot_be_sent_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "missions.yaml").write_text("kind: missions\nflows: []\n")
    ran = _typed("try", tmp_path / "missions.yaml", "--url", "http://127.0.0.1:1")
    assert isinstance(ran.exception, Problem)
    assert "flows" in str(ran.exception)


def test_the_pages_missions_and_loads_are_what_they_look_like() -> None:
    first, *loads = _BLOCKS
    missions = read_missions(first.encode(), place="page")
    assert [flow.weight for flow in missions.flows] == [3, 1, 1]
    assert len(loads) == 4
    for block in loads:
        section = load_as(block.encode(), dict[str, Missions], place="page", fmt="yaml")["missions"]
        assert list(section_problems(section, place="page")) == []
