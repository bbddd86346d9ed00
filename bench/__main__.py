"""`python -m bench`: every measurement, one after the other; what lacks its program here is said and passed over."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run each; the first code that is not 0."""
    if len(sys.argv) > 1:  # each measurement has options of its own
        raise SystemExit("usage: python -m bench    (no options; see python bench/engine.py --help and its neighbours)")
    codes = []
    for script in (
        "proxy.py",
        "streams.py",
        "engine.py",
        "truth.py",
        "mark.py",
        "retries.py",
        "workspace.py",
        "gates.py",
        "webhook.py",
        "lease.py",
        "retry_guard.py",
        "quota.py",
        "tools.py",
        "guard.py",
        "flags.py",
        "missions.py",
        "transcripts.py",
    ):
        print(f"\n## bench/{script}\n", flush=True)
        codes.append(subprocess.run([sys.executable, HERE / script], check=False).returncode)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
