"""
Captions: found pictures share 80 % of their things in place of 8 %
===================================================================

Query by a caption, and find the pictures that match it best.

Captions are bags of words, pictures are pixels: two kinds of points with different features. A
caption and a picture share a label, the set of things and their places. The distance of two labels
is the share of their entries that differ (Jaccard). So labels are continuous: a picture may match a
caption in part.

``EmbeddingLearner`` embeds captions by one perceptron and pictures by another, into one space.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer

from metricfast import EmbeddingLearner
from metricfast.embeddings import MLP, Asymmetric
from metricfast.losses import LogRatio
from metricfast.metrics import retrieval_report
from metricfast.samplers import DenseTriplet

SIDE = 16
THINGS = {
    "sun": ((1.0, 0.8, 0.1), ["sun", "sunshine", "sunny"]),
    "tree": ((0.1, 0.6, 0.2), ["tree", "oak", "pine"]),
    "house": ((0.8, 0.2, 0.2), ["house", "home", "hut"]),
    "lake": ((0.2, 0.4, 0.9), ["lake", "pond", "water"]),
}
PLACES = [["above", "left"], ["above", "right"], ["below", "left"], ["below", "right"]]


def make_scenes(n, rng):
    """Return labels: for each scene, which thing is at which of four places."""
    scenes = np.zeros((n, len(THINGS), len(PLACES)))
    for scene in scenes:
        for place in rng.choice(len(PLACES), rng.integers(1, 4), replace=False):
            scene[rng.integers(len(THINGS)), place] = 1
    return scenes.reshape(n, -1)


def write(scene, rng):
    """Write a caption: the things in any order, each by one of its words."""
    words = []
    for thing, place in zip(*np.nonzero(scene.reshape(len(THINGS), -1)), strict=True):
        names = list(THINGS.values())[thing][1]
        words.append(" ".join([rng.choice(names), *PLACES[place]]).replace(" ", "_"))
    return " ".join(rng.permutation(words))


def paint(scene, rng):
    """Paint a picture: a blot of each thing's colour about its place, on a noisy ground."""
    picture = np.tile(rng.uniform(0.3, 0.7, 3), (SIDE, SIDE, 1))
    for thing, place in zip(*np.nonzero(scene.reshape(len(THINGS), -1)), strict=True):
        top, left = np.divmod(place, 2) * np.full(2, SIDE // 2) + rng.integers(0, 4, 2)
        picture[top : top + 5, left : left + 5] = list(THINGS.values())[thing][0]
    return (picture + 0.1 * rng.normal(size=picture.shape)).ravel()


rng = np.random.default_rng(0)
of_captions, of_pictures, of_queries, of_album = (
    make_scenes(n, rng) for n in (1000, 1000, 200, 500)
)
captions, queries = ([write(scene, rng) for scene in some] for some in (of_captions, of_queries))
pictures, album = (
    np.array([paint(scene, rng) for scene in some], np.float32) for some in (of_pictures, of_album)
)
words = CountVectorizer(token_pattern=r"\S+", dtype=np.float32).fit(captions)

learner = EmbeddingLearner(
    LogRatio(),
    Asymmetric(MLP((64,), 16, normalize=True), MLP((128,), 16, normalize=True)),
    DenseTriplet(n_neighbors=10, batch_size=100, n_anchors=8),
    label_distance="jaccard",
    max_epochs=20,
    random_state=0,
)
learner.fit(words.transform(captions), of_captions, pictures, of_pictures)

# Picture: Four captions, such as tree above left. Under each, the five pictures of coloured blots
# that the search finds, which match the caption. Left, five random pictures.
_, found = learner.kneighbors(words.transform(queries[:4]), album, 5)
_, panels = plt.subplots(4, 11, figsize=(13, 6), layout="constrained")
for caption, shown, line in zip(queries, found, panels, strict=False):
    things = [word.replace("_", " ") for word in caption.split()]
    line[2].set_title("at random", fontsize=11)
    line[8].set_title(", ".join(things), fontsize=11)
    for panel, picture in zip(line, [*rng.integers(len(album), size=5), None, *shown], strict=True):
        if picture is not None:
            panel.imshow(album[picture].reshape(SIDE, SIDE, 3).clip(0, 1))
        panel.axis("off")
plt.show()

# %%
# Before learning, no distance compares words with pixels, so the pictures on the left are random.
# The report compares the label of the caption with the labels of the five pictures found. Chance
# means five random pictures, and oracle means the five best pictures.

print(f"{learner.n_iter_} epochs")
report = retrieval_report(
    learner.transform(words.transform(queries), "query"), of_queries,
    learner.transform(album, "database"), of_album,
    metrics=["mean_label_distance_at_k", "ndcg_at_k"], k=5, label_distance="jaccard",
)  # fmt: skip
print(report)
