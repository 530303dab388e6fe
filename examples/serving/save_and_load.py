"""
Save a model, load it, search with it
=====================================

A model file holds arrays and JSON, and runs no code when it is loaded. A second file holds a
database of embedded points. The next program maps it into memory and searches at once.
"""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

import metricfast
from metricfast.plotting import NeighborsDisplay

digits = load_digits()
X, y = digits.data / 16, digits.target
with tempfile.TemporaryDirectory() as folder:
    model, database = Path(folder, "digits.safetensors"), Path(folder, "digits.mfdb")

    learner = metricfast.LFDA(n_components=20).fit(X[:1400], y[:1400])
    metricfast.save(learner, model)
    metricfast.Database(learner.transform(X[:1400]).astype(np.float32)).save(database)
    print(f"model {model.stat().st_size} bytes, database {database.stat().st_size} bytes")

    # In another program
    loaded = metricfast.load(model)
    assert (loaded.transform(X) == learner.transform(X)).all()
    queries = loaded.transform(X[1400:]).astype(np.float32)
    found = metricfast.Database.load(database)
    distances, ids = found.kneighbors(queries, n_neighbors=5)
    print(f"searched by {found.algorithm_}: nearest right {np.mean(y[ids[:, 0]] == y[1400:]):.3f}")
    del found

# Picture: Four digits that are not in the database, and the five nearest digits in it.
NeighborsDisplay.from_neighbors(
    distances[:4],
    ids[:4],
    images=digits.images[:1400],
    y=y[:1400],
    query_images=digits.images[1400:1404],
    query_y=y[1400:1404],
)
plt.show()
