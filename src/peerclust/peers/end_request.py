"""What happens when a process is asked to end, by SIGTERM or Ctrl-C, whatever it is doing."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from threading import Thread

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

# How many seconds a process has to end in an orderly way.
GRACE = 1.5


class EndRequest:
    """Waits for the signals in a thread of its own.

    Python's own handlers run in the main thread only, between two steps of its code: not while it
    reads a file, compiles a kernel or waits for a disk. As long as there is no `listener`, a signal
    calls `exit_now`, which ends the process. Otherwise the listener is called, in the thread, and
    has `GRACE` seconds. A second signal calls `exit_now`.
    """

    def __init__(self, exit_now: Callable[[], None]) -> None:
        self.exit_now = exit_now
        self.listener: Callable[[], None] | None = None
        self._asked = False

    def __enter__(self) -> EndRequest:
        """Start listening; only the main thread can."""
        self._end, self._other_end = socket.socketpair()
        self._other_end.setblocking(False)
        # The handlers do nothing: the number of a signal is also written to the socket, at once.
        self._handlers = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._other_end.fileno(), warn_on_full_buffer=False)
        Thread(target=self._listen, name="end-request", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._asked:
            # The process is about to end. The thread sees to it, should other threads delay it.
            return
        signal.set_wakeup_fd(self._wakeup)
        for each, handler in self._handlers.items():
            signal.signal(each, handler)
        self._other_end.close()

    def _listen(self) -> None:
        try:
            while number := self._end.recv(1):
                if number[0] not in _SIGNALS:
                    continue
                if self._asked or self.listener is None:
                    break
                self._asked = True
                self._end.settimeout(GRACE)
                self.listener()
            else:
                self._end.close()
                return
        except TimeoutError:
            pass
        self.exit_now()
