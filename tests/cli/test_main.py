import subprocess
import sys

import click
import pytest

from drillmaster import cli


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (RuntimeError("a bug of ours"), 2),  # a crash is no failed gate
        (KeyboardInterrupt(), 3),
        (click.UsageError("no such thing"), 2),
        (click.FileError("x"), 2),  # click's own code for this one is 1
    ],
)
def test_a_crash_or_an_interrupt_never_looks_like_a_failed_gate(
    raised: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> None:
        raise raised

    with pytest.raises(SystemExit) as ended:
        cli.main(click.Command("boom", callback=body), [])
    assert ended.value.code == code
    assert "Traceback" not in capsys.readouterr().err


def test_python_dash_m_is_the_same_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "--version"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0
    assert "drillmaster" in done.stdout
