"""Study: which learner suits 100,000 points and more?

    python -m benchmarks.study_large [--points N] [--classes N] [--features N] [--components P]
        [--seconds S] [--learner NAME]...

Fits learners to overlapping classes (`data.overlapping`), each in a separate process. Prints the
processor time and the peak memory of each fit, the share of 2000 other points whose nearest
training point has their class (P@1), and the call. Fits with more than S seconds of processor time
are ended.
"""

from __future__ import annotations

__all__ = ["CALLS", "main", "measure"]

import argparse
import multiprocessing
import resource
import time
import warnings
from typing import Any

import numpy as np

import metricfast
from benchmarks import data
from benchmarks.case import Arrays
from benchmarks.worker import memory, new_peak
from metricfast.solvers import Adam

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Euclidean": ("", {}),
    "LFDA": ("LFDA", {}),
    "RCA": ("RCA_Supervised", {"n_chunks": 10_000}),
    "DMLMJ": ("DMLMJ", {}),
    "ANMM": ("ANMM", {}),
    "ProxyNCA": ("ProxyNCALearner", {"max_epochs": 10}),
    "triplets": ("TripletLearner", {"max_epochs": 10}),
    "SCML": ("SCML_Supervised", {}),
    "NCA-adam": ("NCA", {"solver": Adam(max_epochs=10)}),
    "LMNN-adam": ("LMNN", {"solver": Adam(max_epochs=10)}),
    "NCA": ("NCA", {}),
    "LMNN": ("LMNN", {}),
}
WITHOUT_SEED = {"LFDA", "DMLMJ", "ANMM"}


def call(name: str, components: int) -> str:
    """Return the constructor call of the learner."""
    learner, params = CALLS[name]
    given = {"n_components": components} | params
    return f"{learner}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


def measure(name: str, arrays: Arrays, components: int) -> dict[str, float]:
    """Fit a learner; return processor seconds, peak memory in MB, and precision at 1."""
    learner, params = CALLS[name]
    x, y = arrays["X"], arrays["y"]
    before, start = new_peak() or 0, time.process_time()
    queries, database = arrays["X_test"], x
    if learner:
        seed = {} if learner in WITHOUT_SEED else {"random_state": 0}
        model = getattr(metricfast, learner)(n_components=components, **params, **seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(x, y)
    seconds, peak = time.process_time() - start, (memory("VmHWM") - before) / 1e6 if before else 0.0
    if learner:
        queries, database = model.transform(queries), model.transform(x)
    nearest = metricfast.kneighbors(queries, database, n_neighbors=1)[1][:, 0]
    return {"seconds": seconds, "MB": peak, "P@1": float(np.mean(y[nearest] == arrays["y_test"]))}


def _child(name: str, options: argparse.Namespace, answers: Any) -> None:
    arrays = data.overlapping(options.points, options.classes, options.features)
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + options.seconds, used + options.seconds + 5))
    answers.send(measure(name, arrays, options.components))


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=300)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=400)
    parser.add_argument("--learner", action="append", choices=CALLS)
    options = parser.parse_args()
    print("| P@1 | CPU s | MB | |\n|---|---|---|---|", flush=True)
    context = multiprocessing.get_context("spawn")
    for name in options.learner or CALLS:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(name, options, theirs))
        process.start()
        theirs.close()
        code = call(name, options.components) if CALLS[name][0] else name
        try:
            found = ours.recv()
            numbers = f"{found['P@1']:.3f} | {found['seconds']:.0f} | {found['MB']:.0f}"
        except EOFError:
            numbers = f"· | > {options.seconds} | "
        print(f"| {numbers} | `{code}` |", flush=True)
        process.join()


if __name__ == "__main__":
    main()
