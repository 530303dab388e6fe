"""The executor: runs a function for each part on the workers of a client, and sums the results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import getitem
from typing import Any

import distributed
import numpy as np
from dask import annotate, delayed, get_annotations

from metricfast._core.memory import in_caller_memory
from metricfast._core.types import Array

# Default number of parts, except for gradients.
N_PARTS = 16
# Seconds between two checks for workers, and seconds without any worker before an error.
_LOOK, _PATIENCE = 2.0, 30.0
# Seconds without a heartbeat before a worker counts as lost. Heartbeats come twice a second to once
# in a few seconds.
_SILENCE = 45.0
# Number of times that tasks are submitted again after their data were lost with a worker.
_ATTEMPTS = 4
# With up to this many tasks per thread, this module assigns tasks to workers; otherwise Dask does.
_FEW = 4


class Shared:
    """A value that is sent to each worker once."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.future: Any = None


class Workers:
    """The workers of a client.

    Raises TypeError for other objects than clients, and ValueError if there is no client or it is
    not connected.
    """

    def __init__(self, client: Any) -> None:
        if client is None:
            try:
                client = distributed.default_client()
            except ValueError as error:
                raise ValueError(
                    "there is no client: start one, distributed.Client(...), or give client."
                ) from error
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise TypeError(
                f"client must be a distributed.Client that is not asynchronous; found {client!r}."
            )
        self.client, self._signs = client, _Signs(client)
        # On a local cluster, results come directly from the workers, not through the scheduler.
        self._direct = isinstance(client.cluster, distributed.LocalCluster) or None
        self._check_connection()
        self.wait_for_one()

    def wait_for_one(self, since: float | None = None) -> None:
        """Wait until there is a worker; raise RuntimeError if none appears in time."""
        end = (time.monotonic() if since is None else since) + _PATIENCE
        while not self.client.nthreads():
            if time.monotonic() > end:
                raise RuntimeError(
                    f"the client has had no worker for {_PATIENCE:.0f} seconds: start workers, and "
                    "call again (with a Checkpoint, training continues from where it was)."
                )
            time.sleep(0.1)

    @property
    def n_threads(self) -> int:
        """Number of threads of all workers, at least one."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def run(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Shared, **common: Any
    ) -> list[Any]:
        """Return ``function(part, *shared, threads=, **common)`` for each part, in order.

        Parts are values or futures. `threads` is the number of threads that a task may use; the
        tasks of a worker together use as many as the worker has.
        """
        parts = list(parts)
        for attempt in range(_ATTEMPTS):
            self._check_connection()
            try:
                of_shared = [[self._sent(each)] * len(parts) for each in shared]
                futures = self.client.map(
                    in_caller_memory(function), parts, *of_shared, pure=False,
                    threads=self._threads_each(parts), **common,
                )  # fmt: skip
                return self._gathered(futures)
            except (CancelledError, distributed.TimeoutError, OSError):
                if attempt == _ATTEMPTS - 1:
                    raise
                for each in shared:
                    each.future = None
        raise AssertionError

    def tasks(self, function: Callable[..., Any], blocks: list[Any], **common: Any) -> list[Any]:
        """Return delayed results of ``function(block, threads=, **common)`` for delayed blocks."""
        how = {"threads": self._threads_each(blocks)}
        how |= {name: delayed(value) for name, value in common.items()}  # sent once
        return [delayed(in_caller_memory(function))(block, **how) for block in blocks]

    def sum(self, function: Callable[..., Any], blocks: list[Any], **common: Any) -> Any:
        """Return the :func:`total` of the results of `tasks`; workers add two at a time."""
        parts = self.tasks(function, blocks, **common)
        while len(parts) > 1:  # pairwise: a worker holds at most two results
            parts = [delayed(total)(parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return self.computed(parts)[0]

    def _threads_each(self, parts: list[Any]) -> int:
        return max(1, self.n_threads // max(1, len(parts)))

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Wait for the results of futures, as long as there are workers that send heartbeats."""
        gathering = self.client.gather(futures, direct=self._direct, asynchronous=True)
        found: list[Any] = self._awaited(gathering, futures)
        return found

    def _awaited(self, coroutine: Any, futures: list[Any] | None = None) -> Any:
        """Wait for a coroutine of the client, and return its result."""
        waiting = asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)
        done = 0
        try:
            while not wait([waiting], timeout=_LOOK)[0]:
                self._check_connection()
                self.wait_for_one()
                before, done = done, sum(future.done() for future in futures or ())
                if done > before:
                    self._signs.forget()
                self._signs.look(of_all=futures is None)
            found = waiting.result()
            self._signs.forget()  # not after an error: the next attempt needs them
            return found
        finally:
            waiting.cancel()

    def computed(self, delayed: list[Any]) -> list[Any]:
        """Compute delayed objects, and return the results in order."""
        try:
            return self._gathered(self.client.compute(delayed)) if delayed else []
        except CancelledError as error:
            raise RuntimeError(
                "what the collections are made of is not on the cluster of this client: it was "
                "persisted or scattered by another client, or went with a worker that was lost. "
                f"Give that client, or make the collections anew: {error}"
            ) from error

    def dealt(self, keys: list[Any]) -> AbstractContextManager[None]:
        """Return a context in which few tasks are assigned evenly to threads, by their keys.

        Dask itself may assign three of four tasks to one of two workers. If a worker fails, any
        other takes its tasks.
        """
        threads = [each for each, n in self.client.nthreads().items() for _ in range(n)]
        if len(keys) > _FEW * len(threads) or "workers" in get_annotations():
            return nullcontext()  # Dask or the caller assigns tasks
        places = {key: [threads[i * len(threads) // len(keys)]] for i, key in enumerate(keys)}
        # A function that the scheduler knows, where this package may be missing.
        where = partial(getitem, places)
        found: AbstractContextManager[None] = annotate(workers=where, allow_other_workers=True)
        return found

    def _sent(self, shared: Shared) -> Any:
        if shared.future is None or shared.future.status != "finished":
            self.wait_for_one()
            sending = self.client.scatter(
                [shared.value], broadcast=True, hash=False, timeout=_PATIENCE, asynchronous=True
            )
            (shared.future,) = self._awaited(sending)
        return shared.future

    def _check_connection(self) -> None:
        if self.client.status != "running":
            raise RuntimeError(
                f"the client is {self.client.status}, not running: connect a new one, "
                "distributed.Client(...), and give it as client."
            )


class _Signs:
    """The time of the last heartbeat of each worker, while no task ends."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._heard: dict[str, tuple[float, float]] = {}  # heartbeat, local time

    def forget(self) -> None:
        """Reset the record of heartbeats."""
        self._heard = {}

    def look(self, *, of_all: bool) -> None:
        """Raise RuntimeError if a busy worker, or any with `of_all`, sends no more heartbeats."""
        now, last = time.monotonic(), self._heard
        try:
            workers = self._client.sync(self._client.scheduler.identity, callback_timeout=_LOOK)
        except (OSError, distributed.TimeoutError):
            return  # the scheduler is busy or lost; the connection raises if lost
        seen = {each: found["last_seen"] for each, found in workers["workers"].items()}
        self._heard = {
            each: last[each] if each in last and last[each][0] == sign else (sign, now)
            for each, sign in seen.items()
        }
        for each, (_, since) in self._heard.items():
            if now - since > _SILENCE and (of_all or self._is_needed(each)):
                raise RuntimeError(
                    f"the worker {each}, for which the client waits, gives no sign of life for "
                    f"{now - since:.0f} seconds: it or its machine is frozen or lost, or a task "
                    "has held the interpreter's lock all this time. Restart it, "
                    f"client.restart_workers([{each!r}]), or retire it, and call again (with "
                    "a Checkpoint, training continues from where it was)."
                )

    def _is_needed(self, worker: str) -> bool:
        client = self._client
        return any(client.processing([worker]).values()) or any(client.has_what([worker]).values())


def threads_here(threads: int) -> int:
    """Return the number of threads that a task may use: at most as many as its worker has."""
    try:
        return max(1, min(threads, int(distributed.get_worker().state.nthreads)))
    except ValueError:  # not on a worker
        return 1


def total(parts: Sequence[Any], shares: Array | None = None) -> Any:
    """Return the sum of the results of parts, in order; None adds nothing.

    Results are numbers, arrays, statistics, or tuples, lists and dictionaries of these. With
    `shares`, the numbers and arrays of each part are multiplied by its share, in float64.
    """
    parts = [part for part in parts if part is not None]
    if not parts:
        return None
    first = parts[0]
    if isinstance(first, dict):
        return {name: total([part[name] for part in parts], shares) for name in first}
    if isinstance(first, (list, tuple)):
        return type(first)(total(each, shares) for each in zip(*parts, strict=True))
    if shares is None:
        return sum(parts[1:], first)
    terms = (s * np.asarray(part, np.float64) for s, part in zip(shares, parts, strict=True))
    found = np.asarray(sum(terms))
    return found.astype(first.dtype) if isinstance(first, np.ndarray) else float(found)
