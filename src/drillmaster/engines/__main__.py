"""`python -m drillmaster.engines`: one HTTP engine, told by a spec on standard input.

Progress is lines of JSON on standard output. Trouble of its own is one more (`error`), a line of text on standard error, and exit
code 2.
"""

import contextlib
import signal
import sys
from typing import Any

import msgspec

from drillmaster.engines import Spec
from drillmaster.engines.http import Engine, as_said
from drillmaster.engines.records import write_all
from drillmaster.errors import Exit, Problem


def main() -> int:
    """Read a spec, one line of JSON, and run it; the exit code."""
    out = sys.stdout.fileno()

    def tell(row: dict[str, Any]) -> None:
        write_all(out, msgspec.json.encode(row) + b"\n")

    engine = None
    try:
        engine = Engine(_read_spec(sys.stdin.buffer.readline()), tell)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, engine.stop)
        return engine.run()
    except Problem as trouble:
        sys.stderr.write(f"{trouble}\n")
        with contextlib.suppress(BrokenPipeError):
            if engine is None:
                tell({"event": "error", **as_said(trouble)})
            else:
                engine.say_trouble(trouble)
    except OSError as error:  # standard output that nobody hears any more, a disk that fails
        sys.stderr.write(f"{error.filename or 'the engine'}: {error.strerror}\n")
    return Exit.REFUSED


def _read_spec(data: bytes) -> Spec:
    try:
        return msgspec.json.decode(data, type=Spec)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Problem(
            "standard input",
            found=str(error),
            wanted="one JSON object that is a spec of this engine",
            remedy="start engines through drillmaster, which words their specs",
        ) from None


if __name__ == "__main__":
    sys.exit(main())
