"""The page of findings has every one that the code can make, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_finding_has_its_row_on_the_page() -> None:
    sources = (ROOT / "src/drillmaster/diagnosis.py", ROOT / "src/drillmaster/retries/findings.py")
    made = {name for path in sources for name in re.findall(r'\bid="([a-z-]+)"', path.read_text())}
    page = (ROOT / "docs/reference/findings.md").read_text()
    rows = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z-]+)`", line.split("|")[1])
    }
    assert "no-fallback" in made
    assert rows == made
