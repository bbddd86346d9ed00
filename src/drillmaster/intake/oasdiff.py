"""What `oasdiff` says of an OpenAPI document, where that program is on PATH: a line for people, never a verdict."""

import subprocess
from pathlib import Path

from drillmaster.errors import one_line
from drillmaster.gates._contract_evidence import Contract

__all__ = ["second_opinion"]

LIMIT_S = 20.0
_MOST_LINES = 20


def second_opinion(one: Contract) -> tuple[str, ...]:
    """Ask it about one contract; nothing where it is not there, does not know the file, or has nothing to say."""
    before, after = one.file.before, one.file.after
    if before is None or after is None or not (b"openapi" in before and b"openapi" in after):
        return ()
    import shutil
    import tempfile

    program = shutil.which("oasdiff")
    if program is None:
        return ()
    with tempfile.TemporaryDirectory(prefix="drillmaster-oasdiff-") as folder:
        suffix = Path(one.path).suffix
        for name, data in (("old", before), ("new", after)):
            (Path(folder) / f"{name}{suffix}").write_bytes(data)
        try:
            done = subprocess.run(  # noqa: S603 - a list, no shell, and the program is the one PATH names
                [program, "breaking", f"old{suffix}", f"new{suffix}", "--format", "singleline"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return (f"{one.path}: oasdiff gave no answer within {LIMIT_S:.0f} s",)
    lines = [line.strip() for line in done.stdout[:100_000].decode("utf-8", "replace").splitlines() if line.strip()]
    return tuple(one_line(f"{one.path}: {line[:300]}") for line in lines[:_MOST_LINES])
