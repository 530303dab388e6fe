"""
Points on disk
==============

The points are in a file that is mapped into memory. Learners read it block by block: some in one
pass, some by mini-batches. The result is the same as with an array, or nearly so.
"""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import metricfast
from metricfast.plotting import LossCurveDisplay

rng = np.random.default_rng(0)
centres = rng.normal(size=(20, 16)) @ np.eye(16, 32)
y = rng.integers(0, 20, 20_000)
y_test = rng.integers(0, 20, 1000)
X_test = (centres[y_test] + rng.normal(size=(1000, 32))).astype(np.float32)

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "points.npy")
    on_disk = np.lib.format.open_memmap(file, "w+", np.float32, (len(y), 32))
    for rows in np.array_split(np.arange(len(y)), 10):  # write the file in parts
        on_disk[rows] = centres[y[rows]] + rng.normal(size=(len(rows), 32))
    on_disk.flush()
    print(f"file of {file.stat().st_size / 1e6:.1f} MB")

    X = np.load(file, mmap_mode="r")
    learners = {
        "one pass, GMML": metricfast.GMML_Supervised(n_components=16),
        "mini-batches, NCA": metricfast.NCA(
            n_components=16, solver=metricfast.solvers.Adam(max_epochs=5), random_state=0
        ),
    }
    maps = {"as given": np.eye(32, dtype=np.float32)}
    for name, learner in learners.items():
        maps[name] = learner.fit(X, y).components_
    for name, L in maps.items():
        nearest = metricfast.kneighbors(X_test, X, n_neighbors=1, L=L)[1][:, 0]
        print(f"nearest of the right class, {name:<18} {np.mean(y[nearest] == y_test):.3f}")
    del X, on_disk  # some systems cannot delete a mapped file

# Picture: The objective of NCA, which falls over five epochs of mini-batches from the file.
LossCurveDisplay.from_estimator(learners["mini-batches, NCA"])
plt.show()
