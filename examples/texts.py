"""
Texts: labels that are sets of subjects
=======================================

Find notes about the same things in different words.

The label of a note is the set of its things. The distance of two labels is Jaccard's: one minus the
share of things in common. A note names each thing by one of several words, among words without
meaning. So notes with the same words may have different things. X is sparse: counts of words. The
labels are a list of sets, not vectors. The learner gets the label distance once, and uses it for
its loss, its batches and its score.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer

import metricfast
from metricfast.embeddings import Linear
from metricfast.losses import LogRatio
from metricfast.metrics import retrieval_report
from metricfast.samplers import DenseTriplet

THINGS = """
dog hound puppy pooch; cat kitten tabby tomcat; horse pony mare stallion; bird sparrow robin finch
child kid toddler boy; woman lady mother aunt; man gentleman father uncle; crowd people audience mob
car automobile sedan taxi; boat ship ferry yacht; train tram railway locomotive; bike bicycle cycle
house cottage cabin villa; street road lane avenue; forest woods grove jungle; beach shore coast
ball football sphere; book novel diary volume; phone mobile handset; hat cap bonnet beret
food meal lunch dinner; coffee espresso mocha latte; fruit apple pear plum; cake pie pastry tart
rain shower drizzle storm; snow frost sleet blizzard; sun sunshine daylight; night evening dusk
run jog sprint race; sleep nap doze rest; sing hum chant croon; fight quarrel brawl wrestle
"""
SYNONYMS = [group.split() for line in THINGS.strip().splitlines() for group in line.split(";")]
FILLERS = (
    "a the some this that one here there now then still again once seen near by with and at in on "
    "very quite really just maybe nice old new big small our my your two three several often today"
)


def make_notes(n, rng):
    """Write notes, and the sets of things that they are about."""
    notes, about = [], []
    # Each note is about three related things, and sometimes one more.
    subjects = [rng.choice(len(SYNONYMS), 5, replace=False) for _ in range(40)]
    for _ in range(n):
        things = {*rng.choice(subjects[rng.integers(40)], 3, replace=False)}
        things |= {*rng.choice(len(SYNONYMS), rng.integers(2))}
        words = [rng.choice(SYNONYMS[thing]) for thing in things] + list(
            rng.choice(FILLERS.split(), 8)
        )
        notes.append(" ".join(rng.permutation(words)))
        about.append({SYNONYMS[thing][0] for thing in things})
    return notes, about


rng = np.random.default_rng(0)
notes, about = make_notes(2000, rng)
train, query, gallery = np.split(np.arange(2000), [1400, 1500])


def some(labels, rows):
    """Take some of a list."""
    return [labels[row] for row in rows]


X = TfidfVectorizer(token_pattern=r"\w+").fit(some(notes, train)).transform(notes)

learner = metricfast.EmbeddingLearner(
    LogRatio(squared=False),
    Linear(32, init="random"),
    DenseTriplet(5, n_anchors=10),
    label_distance="jaccard",
    random_state=0,
    solver=metricfast.solvers.Adam(learning_rate=0.02, schedule="cosine", max_epochs=10),
).fit(X[train], some(about, train))

embedded, found = {"words": X.toarray(), "learned": learner.transform(X)}, {}
for name, Z in embedded.items():
    found[name] = retrieval_report(
        Z[query], some(about, query), Z[gallery], some(about, gallery), k=5,
        label_distance="jaccard",
    )  # fmt: skip
    print(f"{name}: subjects of the 5 nearest notes\n{found[name]}\n")

away = [report["mean_label_distance_at_k"].values for report in found.values()]
shown = query[[np.argmax(away[0] - away[1])]]
print(f"A note: {notes[shown[0]]}")
for name, Z in embedded.items():
    nearest = metricfast.kneighbors(Z[shown], Z[gallery], n_neighbors=1)[1][0, 0]
    print(f"  nearest by {name}: {notes[gallery[nearest]]}")
if found["learned"]["ndcg_at_k"].interval[0] <= found["words"]["ndcg_at_k"].interval[1]:
    sys.exit("the learned map finds subjects no better than words do")

# %%
# Label distances of the nearest notes:

# Picture: Two histograms of the Jaccard distance of subjects between queries and the five nearest
# notes: by words, most are 0.6 or more; by the learned map, most are lower.
_, axes = plt.subplots(figsize=(6, 3.5))
for name, report in found.items():
    away = report["mean_label_distance_at_k"].values
    axes.hist(away, bins=20, range=(0, 1), alpha=0.6, label=name)
axes.set(xlabel="mean Jaccard distance of subjects, 5 nearest notes", ylabel="queries")
axes.legend()
plt.show()
