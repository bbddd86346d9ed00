"""A terminator that dies between the insert and the answer, as often as wanted: `python -m drillmaster.kits.webhook.dying FILE`.

One parent imports everything and holds the listening socket; each child is a fork that serves. An event whose identifier begins
with `evt_kill_` ends the child by SIGKILL when its row is on the disk and nothing is answered yet; its second delivery is known
already and is answered. The parent says `listening PORT` once and `child PID` for each child. All of them die with whoever
started this.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

from drillmaster.adapters.worker.webhook import Keeper, Terminator
from drillmaster.adapters.worker.webhook_server import bind, serve
from drillmaster.adapters.worker.webhook_settings import endpoint_of, keys_of, read_settings
from drillmaster.clock import SystemClock
from drillmaster.guards.webhook import Stored
from drillmaster.kits.webhook import KILLING
from drillmaster.stores.inbox import Arrival
from drillmaster.stores.inbox_opening import backend_of, open_inbox

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


class _DyingKeeper(Keeper):
    async def keep(self, arrival: Arrival) -> Stored:
        stored = await super().keep(arrival)
        if stored == "new" and arrival.event_id.startswith(KILLING):
            os.kill(os.getpid(), signal.SIGKILL)
        return stored


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(path: Path) -> None:
    """Fork children until SIGTERM."""
    _die_with_parent()
    import uvicorn.protocols.http.h11_impl  # noqa: F401 - once, and not in each child

    settings = read_settings(path, clock=SystemClock())
    backend_of(settings.inbox, within_s=settings.store_within_s)  # the driver too
    keys = keys_of(settings, os.environ, path.parent, place=str(path))
    endpoint = endpoint_of(settings, keys, place=str(path))
    listening = bind("127.0.0.1", 0)
    sys.stdout.write(f"listening {listening.getsockname()[1]}\n")
    child = 0

    def end(number: int, frame: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    parent = os.getpid()
    while True:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _die_with_parent()
            if os.getppid() != parent:  # it was gone before this
                os._exit(0)
            keeper = _DyingKeeper.of(
                settings.inbox,
                lambda: open_inbox(settings.inbox, within_s=settings.store_within_s),
                within_s=settings.store_within_s,
            )
            serve(Terminator(endpoint, keeper), listening, head_within_s=5, ready=lambda: None)
            os._exit(0)
        sys.stdout.write(f"child {child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
