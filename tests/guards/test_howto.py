"""What the pages on guards show runs as it stands."""

import re
from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


@pytest.mark.parametrize("page", ["make-cache-keys", "let-drafts-out", "write-memory"])
def test_the_code_on_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (HOWTO / f"{page}.md").read_text("utf-8"), re.S)
    assert blocks
    told: dict[str, object] = {"__name__": page}
    for block in blocks:
        exec(block, told)
