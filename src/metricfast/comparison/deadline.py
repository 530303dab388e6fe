"""Work that ends when its time is over."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["OutOfTimeError", "stopped_after"]


class OutOfTimeError(BaseException):
    """The time of a block of :func:`stopped_after` is over; nothing but that should catch it."""


@contextmanager
def stopped_after(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTimeError within the block once it has taken so many seconds.

    It takes the way of Ctrl-C, which all long work of this package listens to; so it needs the main
    thread. In another one the block runs to its end.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: Any = signal.getsignal(signal.SIGINT)
    late = running = False

    def ring() -> None:
        nonlocal late
        late = True
        if running:
            _thread.interrupt_main()

    def handle(number: int, frame: Any) -> None:
        if late and running:
            raise OutOfTimeError
        if late:  # a ring that comes when all is done
            return
        if callable(previous):
            previous(number, frame)
        elif previous != signal.SIG_IGN:
            raise KeyboardInterrupt

    timer = threading.Timer(max(seconds, 0), ring)
    timer.daemon = True
    signal.signal(signal.SIGINT, handle)
    try:
        try:
            running = True
            timer.start()
            yield
        finally:
            running = False
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()  # after which nothing rings any more
        signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)
