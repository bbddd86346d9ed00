"""The signals that end a process, heard as an order to stop, until the drill has said how it ended."""

import asyncio
import signal
import threading
from collections.abc import Callable

__all__ = ["EndingSignals"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndingSignals:
    """Heard from the making of it, in the running loop. Only the main thread can hear; elsewhere the caller cancels."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        here = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.getsignal(number) for number in _ENDING} if here else {}
        for number in self._before:
            self._loop.add_signal_handler(number, heard, number.name)

    def close(self, *, deaf: bool) -> None:
        """Give them back; `deaf`: from now on they are without effect."""
        for number, handler in self._before.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN if deaf else signal.SIG_DFL if handler is None else handler)
