"""The page on leases runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.stores.opening import open_store

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/hold-a-lease.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def test_its_programs_run_one_after_the_other(tmp_path: Path) -> None:
    (limits,) = blocks("yaml")
    (tmp_path / "guards.yaml").write_text(re.sub(r"review_by: .*", "review_by: 2126-06-30", limits))
    store = open_store(f"sqlite:{tmp_path / 'guards.db'}", within_s=5)
    store.prepare()
    store.close()
    program = "\n".join(blocks("python")).replace(
        'open_store("sqlite:guards.db")', 'open_store("sqlite:guards.db", within_s=5)'
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rsplit(" ", 1)[0] for line in done.stdout.splitlines()] == [f"part {n} under" for n in range(3)]
