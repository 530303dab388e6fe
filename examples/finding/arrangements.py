"""
Layouts: found pictures share 45 % of their boxes in place of 28 %
==================================================================

Find pictures with the same things in the same places.

The label of a picture is a set of labelled boxes. The distance of two labels is one minus the
intersection over the union (IoU) of boxes of one kind, over all kinds. That is a slow function of
two labels. So it is called once for each pair, and the learner gets the matrix of all distances in
place of labels: "precomputed". The matrix may be a memory map.

Pictures show each kind of box in its own colour. Ground and light change from picture to picture,
so pictures with similar pixels may have different layouts.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

import metricfast
from metricfast.metrics import retrieval_report
from metricfast.plotting import NeighborsDisplay

SIDE = 12
KINDS = {"house": (0.9, 0.3, 0.2), "tree": (0.2, 0.8, 0.3), "lake": (0.2, 0.4, 0.9)}


def make_arrangement(rng):
    """Return up to one box of each kind: (kind, left, top, right, bottom), from 0 to SIDE."""
    boxes = []
    for kind in KINDS:
        if rng.random() < 0.8:
            left, top = rng.integers(0, SIDE - 5, 2)
            width, height = rng.integers(5, 10, 2)
            boxes.append((kind, left, top, min(left + width, SIDE), min(top + height, SIDE)))
    return boxes or make_arrangement(rng)


def draw(boxes, rng):
    """Paint the boxes, one through the other, with a ground, a light and a noise of its own."""
    picture = np.tile(rng.uniform(0, 1.5, 3), (SIDE, SIDE, 1))
    for kind, left, top, right, bottom in boxes:
        picture[top:bottom, left:right] += np.array(KINDS[kind])
    light = rng.uniform(0.5, 1.5) * np.linspace(rng.uniform(0.3, 1), 1, SIDE)[:, None, None]
    return (light * picture + 0.1 * rng.normal(size=picture.shape)).ravel()


def area(left, top, right, bottom):
    """Area of a box, 0 of one that ends before it begins."""
    return max(right - left, 0) * max(bottom - top, 0)


def layout_distance(a, b):
    """One less the intersection over the union of two sets of boxes."""
    both = 0
    for kind, *box in a:
        for other, *corners in b:
            if kind == other:
                (x, y, right, bottom), (left, top, end, low) = box, corners
                both += area(max(x, left), max(y, top), min(right, end), min(bottom, low))
    return 1 - both / (sum(area(*box) for _, *box in (*a, *b)) - both)


rng = np.random.default_rng(0)
layouts = [make_arrangement(rng) for _ in range(1000)]
X = np.array([draw(boxes, rng) for boxes in layouts])
train, query, gallery = np.split(np.arange(1000), [650, 730])

# The function is called once for each pair, in one order.
among = np.zeros((len(train), len(train)))
for i in range(len(train)):
    among[i, :i] = [layout_distance(layouts[i], layouts[j]) for j in range(i)]
among += among.T
across = np.array([[layout_distance(layouts[i], layouts[j]) for j in gallery] for i in query])

learner = metricfast.LogRatioLearner(
    16,
    hidden_layer_sizes=(128,),
    label_distance="precomputed",
    random_state=0,
    solver=metricfast.solvers.Adam(
        learning_rate=0.002, schedule="cosine", weight_decay=0.1, max_epochs=15
    ),
).fit(X[train], among)


def outlined(picture, boxes):
    """Enlarge a picture, bring it to one light, and outline its boxes."""
    image = np.kron(picture.reshape(SIDE, SIDE, 3) / picture.max(), np.ones((4, 4, 1)))
    for kind, *box in boxes:
        left, top, right, bottom = (4 * edge for edge in box)
        inside = image[top + 1 : bottom - 1, left + 1 : right - 1].copy()
        image[top:bottom, left:right] = KINDS[kind]
        image[top + 1 : bottom - 1, left + 1 : right - 1] = inside
    return image.clip(0, 1)


pictures = np.array([outlined(picture, boxes) for picture, boxes in zip(X, layouts, strict=True)])

# Picture: Four pictures of coloured boxes, outlined, each with its five nearest: by pixels on the
# left, with similar colours overall, and by the learned map on the right, with similar boxes in
# similar places.
embedded = {"by pixels": X, "by the learned map": learner.transform(X)}
_, panels = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for panel, (name, Z) in zip(panels, embedded.items(), strict=True):
    nearest = metricfast.kneighbors(Z[query[:4]], Z[gallery], 5)[1]
    away = np.take_along_axis(across[:4], nearest, axis=1)
    NeighborsDisplay.from_neighbors(
        away, gallery[nearest], images=pictures, query_images=pictures[query[:4]], ax=panel
    )
    panel.set_title(f"{name}: distances of layouts")
plt.show()

# %%
# All queries:

found = {}
for name, Z in embedded.items():
    found[name] = retrieval_report(Z[query], across, Z[gallery], k=5, label_distance="precomputed")
    print(f"{name}: layouts of the 5 nearest pictures\n{found[name]}\n")
before, after = (report["ndcg_at_k"].interval for report in found.values())
if after[0] <= before[1]:
    sys.exit("the learned map finds layouts no better than pixels do")
