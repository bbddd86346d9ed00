"""Somebody's Locust file: what its command says."""

import json
from pathlib import Path

from drillmaster.adapters.drill.locust_file import locust_command


def test_the_drill_says_where_to_how_many_and_that_nothing_is_listened_to() -> None:
    said = {"out": "/runs/1/locust-0.ndjson", "first": 0, "run": "ab12", "addresses": ["127.0.0.1"]}
    argv, env, cwd = locust_command(
        "/team/locustfile.py",
        "/team/.venv/bin/python",
        url="http://127.0.0.1:8090",
        users=200,
        users_per_s=20,
        stop_s=10,
        cwd="/team",
        said=said,
    )
    assert argv[:4] == ["/team/.venv/bin/python", "-m", "locust", "-f"]
    file, plugin = argv[4].split(",")
    assert file == "/team/locustfile.py"
    assert Path(plugin).is_file()
    assert argv[argv.index("--host") + 1] == "http://127.0.0.1:8090"
    assert (argv[argv.index("-u") + 1], argv[argv.index("-r") + 1]) == ("200", "20")
    assert "--headless" in argv  # no page
    assert json.loads(env["DRILLMASTER_LOCUST"]) == said
    assert cwd == "/team"
