"""The workers of a client: results of parts in order, or their sum, or an error in time."""

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

__all__ = ["N_PARTS", "Shared", "Workers", "threads_here", "total"]

# Parts by default, but of gradients.
N_PARTS = 16
# Seconds between two looks at whether there is a worker, and without any until that is an error.
_LOOK, _PATIENCE = 2.0, 30.0
# Seconds without a sign of a worker, of which there should be two each second, or one in a few.
_SILENCE = 45.0
# Times that tasks are given again whose data went with the last worker that had them.
_ATTEMPTS = 4
# Tasks for each thread up to which they are dealt out.
_FEW = 4


class Shared:
    """Something that each worker is sent once."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.future: Any = None


class Workers:
    """The workers of a client.

    Raises TypeError for what is no client, ValueError where there is none, or it has no connection.
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
        # Results of workers of this machine need not go through the scheduler.
        self._direct = isinstance(client.cluster, distributed.LocalCluster) or None
        self._check_connection()
        self.wait_for_one()

    def wait_for_one(self, since: float | None = None) -> None:
        """Wait until there is a worker; RuntimeError if none comes."""
        end = (time.monotonic() if since is None else since) + _PATIENCE
        while not self.client.nthreads():
            if time.monotonic() > end:
                raise RuntimeError(
                    f"the client has had no worker for {_PATIENCE:.0f} seconds: start workers, and "
                    "call again (with a Checkpoint a training goes on from where it was)."
                )
            time.sleep(0.1)

    @property
    def n_threads(self) -> int:
        """Threads of all workers, at least one."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def run(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Shared, **common: Any
    ) -> list[Any]:
        """Return ``function(part, *shared, threads=, **common)`` of each part, in order.

        Parts are values or futures. `threads` is how many a task may use, such that all of a worker
        together have what it has.
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
        """Return ``function(block, threads=, **common)`` of delayed blocks, delayed as well."""
        how = {"threads": self._threads_each(blocks)}
        how |= {name: delayed(value) for name, value in common.items()}  # each is sent once
        return [delayed(in_caller_memory(function))(block, **how) for block in blocks]

    def sum(self, function: Callable[..., Any], blocks: list[Any], **common: Any) -> Any:
        """Return the :func:`total` of `tasks`, of which workers add up two at a time."""
        parts = self.tasks(function, blocks, **common)
        while len(parts) > 1:  # neighbours, so that no worker ever has more than two
            parts = [delayed(total)(parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return self.computed(parts)[0]

    def _threads_each(self, parts: list[Any]) -> int:
        return max(1, self.n_threads // max(1, len(parts)))

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Wait for what futures are, as long as there are workers, and these give signs."""
        gathering = self.client.gather(futures, direct=self._direct, asynchronous=True)
        found: list[Any] = self._awaited(gathering, futures)
        return found

    def _awaited(self, coroutine: Any, futures: list[Any] | None = None) -> Any:
        """Return what comes of a coroutine of the client, of futures or of all workers."""
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
            self._signs.forget()  # but not where it failed, and is tried again
            return found
        finally:
            waiting.cancel()

    def computed(self, delayed: list[Any]) -> list[Any]:
        """Return what delayed objects are, in order."""
        try:
            return self._gathered(self.client.compute(delayed)) if delayed else []
        except CancelledError as error:
            raise RuntimeError(
                "what the collections are made of is not on the cluster of this client: it was "
                "persisted or scattered by another client, or went with a worker that was lost. "
                f"Give that client, or make the collections anew: {error}"
            ) from error

    def dealt(self, keys: list[Any]) -> AbstractContextManager[None]:
        """Within it, tasks of these keys are dealt out where they are few: as many to each thread.

        Dask may give one of two workers three of four. Any worker does what another cannot.
        """
        threads = [each for each, n in self.client.nthreads().items() for _ in range(n)]
        if len(keys) > _FEW * len(threads) or "workers" in get_annotations():
            return nullcontext()  # Dask does it, or who calls has said where
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
    """When each worker was heard of, while nothing comes of waiting."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._heard: dict[str, tuple[float, float]] = {}  # the sign, and when it was seen here

    def forget(self) -> None:
        """Begin anew."""
        self._heard = {}

    def look(self, *, of_all: bool) -> None:
        """Raise RuntimeError where a worker is heard of no more that has work, or any of all."""
        now, last = time.monotonic(), self._heard
        try:
            workers = self._client.sync(self._client.scheduler.identity, callback_timeout=_LOOK)
        except (OSError, distributed.TimeoutError):
            return  # the scheduler is busy, or gone: the connection will show
        seen = {each: found["last_seen"] for each, found in workers["workers"].items()}
        self._heard = {
            each: last[each] if each in last and last[each][0] == sign else (sign, now)
            for each, sign in seen.items()
        }
        for each, (_, since) in self._heard.items():
            if now - since > _SILENCE and (of_all or self._is_needed(each)):
                raise RuntimeError(
                    f"the worker {each}, which is waited for, has given no sign for "
                    f"{now - since:.0f} seconds: it or its machine is frozen, or lost, or a task "
                    "has held its interpreter's lock for so long. Restart it, "
                    f"client.restart_workers([{each!r}]), or retire it, and call again (with "
                    "a Checkpoint a training goes on from where it was)."
                )

    def _is_needed(self, worker: str) -> bool:
        client = self._client
        return any(client.processing([worker]).values()) or any(client.has_what([worker]).values())


def threads_here(threads: int) -> int:
    """Return how many threads a task may use where it runs: no more than its worker has."""
    try:
        return max(1, min(threads, int(distributed.get_worker().state.nthreads)))
    except ValueError:  # no worker
        return 1


def total(parts: Sequence[Any], shares: Array | None = None) -> Any:
    """Return the sum of the results of parts, in order; None adds nothing.

    Results are numbers, arrays, statistics, or tuples, lists and dictionaries of these. With
    `shares`, of numbers and arrays, each is multiplied by its own, in float64.
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
