"""
A perceptron as the embedding
=============================

A linear map and a perceptron with one hidden layer are trained by the same loss: the supervised
contrastive loss of points of length 1.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import MLP, Linear
from metricfast.metrics import retrieval_report
from metricfast.plotting import EmbeddingDisplay
from metricfast.samplers import ClassBalanced

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)

embedded = {}
for name, embedding in {
    "linear": Linear(3, normalize=True),
    "perceptron": MLP((64,), 3, normalize=True),
}.items():
    learner = EmbeddingLearner(
        losses.SupCon(0.1), embedding, ClassBalanced(8, 128), max_epochs=30, random_state=0
    ).fit(X_train, y_train)
    embedded[name] = learner.transform(X_test)
    print(f"{name} to 3 components, of held-out points")
    print(retrieval_report(embedded[name], y_test, metrics=["precision_at_1", "map_at_r"]))

# Picture: Held-out digits on the unit sphere, drawn by their first two coordinates: by a linear map
# the classes overlap, by a perceptron they overlap less.
figure = plt.figure(figsize=(10, 4.5), layout="constrained")
EmbeddingDisplay.from_embeddings(embedded, y_test, ax=figure.add_subplot())
plt.show()
