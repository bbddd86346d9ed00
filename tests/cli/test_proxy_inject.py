"""`drillmaster proxy inject`: what is wrong with its rules is told before a proxy is asked."""

from pathlib import Path

import pytest

from drillmaster.cli import main

RULES = """
rules:
  - {mode: throttle, params: {bytes_per_s: 100}}
  - {mode: 503, share: 0.5}
"""


def test_a_rule_that_nothing_is_left_for_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    with pytest.raises(SystemExit) as ended:
        main(argv=["proxy", "inject", "--control", str(tmp_path / "none.sock"), "--rules", str(file)])
    assert ended.value.code == 2
    assert f"{file}: /rules/1: found 503 behind throttle of /rules/0" in capsys.readouterr().err
