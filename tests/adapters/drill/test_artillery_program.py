"""Somebody's profile under their Artillery: what its command says."""

import json
import re
from pathlib import Path

from drillmaster.adapters.drill.artillery_program import artillery_command


def test_the_drill_says_where_to_and_node_loads_our_module_first() -> None:
    said = {"out": "/runs/1/artillery-0.ndjson", "first": 0, "run": "ab12", "addresses": ["127.0.0.1"]}
    argv, env, cwd = artillery_command(
        "/team/drills/artillery.yml", "/usr/bin/artillery", url="http://127.0.0.1:8090/v2", said=said
    )
    assert argv == ["/usr/bin/artillery", "run", "--target", "http://127.0.0.1:8090/v2", "/team/drills/artillery.yml"]
    match = re.fullmatch(r'--require="(.+)"', env["NODE_OPTIONS"])
    assert match is not None
    assert Path(match[1]).is_file()
    assert json.loads(env["DRILLMASTER_ARTILLERY"]) == {**said, "authority": "127.0.0.1:8090"}
    assert cwd == "/team/drills"
