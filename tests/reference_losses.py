"""Slow, obvious losses beyond binary labels: loops over pairs and triplets in float64.

Each is a function of (A, y, B, yb, own): queries and database points with their labels, and whether
both are the same points, which excludes each anchor from its own neighbours.
"""

import itertools
import math
from functools import partial

import numpy as np

from metricfast import losses

# Compiled has required parameters.
NAMES = [name for name in losses.__all__ if name != "Compiled"]


def rows(A, B, own):
    """Yield (i, columns, D): each anchor, its neighbours, and its squared distances."""
    for i in range(len(A)):
        columns = [j for j in range(len(B)) if not (own and j == i)]
        yield i, columns, [float(np.sum((A[i] - b) ** 2)) for b in B]


def label_distance(a, b, metric="sqeuclidean"):
    d = np.atleast_1d(np.subtract(a, b))
    if metric == "cityblock":
        return float(np.abs(d).sum())
    return float((d**2).sum()) ** (1.0 if metric == "sqeuclidean" else 0.5)


def on_itself(loss):
    """Return a loss of points among themselves; integer weights repeat points."""

    def value(Z, y, weight=None):
        repeated = np.repeat(np.arange(len(Z)), 1 if weight is None else weight)
        Z, y = Z[repeated], np.asarray(y)[repeated]
        return loss(Z, y, Z, y, True)

    return value


def rounding(y, yb, metric):
    """Return the tolerance for ties of label distances: eight units in the last place."""
    width = np.atleast_2d(np.transpose(y)).shape[0]
    unit = 8 * np.finfo(float).eps * width * max(np.abs(y).max(), np.abs(yb).max())
    return lambda a, b: unit * (math.sqrt(a) + math.sqrt(b) if metric == "sqeuclidean" else 1)


def with_ties(t, near):
    """Replace tied label distances by one value."""
    t = {j: 0.0 if value <= near(value, 0) else value for j, value in t.items()}
    order, result = sorted(t, key=t.get), {}
    for last, j in itertools.pairwise([None, *order]):
        tied = last is not None and t[j] - t[last] <= near(t[j], t[last])
        result[j] = result[last] if tied else t[j]
    return result


def mean(values):
    return float(np.mean(values)) if len(values) else 0.0


def log_sum(values):
    return float(np.logaddexp.reduce(values)) if len(values) else -math.inf


def delta(d, squared, eps):
    return d + eps if squared else math.sqrt(d + eps)


def neighbours(A, B, own, squared=True):
    """Yield (i, columns, log_p): each anchor, with log probabilities of its neighbours."""
    for i, columns, D in rows(A, B, own):
        far = {j: D[j] if squared else math.sqrt(D[j]) for j in columns}
        whole = log_sum([-d for d in far.values()])
        yield i, columns, {j: -d - whole for j, d in far.items()}


def nca(form="sum", squared=True):
    def loss(A, y, B, yb, own):
        total = 0.0
        for i, columns, log_p in neighbours(A, B, own, squared):
            right = log_sum([log_p[j] for j in columns if yb[j] == y[i]])
            if form == "sum":
                total -= math.exp(right)
            elif math.isfinite(right):
                total -= right
        return total

    return loss


def mlkr(squared=True):
    def loss(A, y, B, yb, own):
        return sum(
            (sum(math.exp(log_p[j]) * yb[j] for j in columns) - y[i]) ** 2
            for i, columns, log_p in neighbours(A, B, own, squared)
        )

    return loss


def mcml():
    """sum_i KL(q_i || p_i), q_i uniform over the class."""

    def loss(A, y, B, yb, own):
        total = 0.0
        for i, columns, log_p in neighbours(A, B, own):
            company = [j for j in columns if yb[j] == y[i]]
            total += mean([-math.log(len(company)) - log_p[j] for j in company])
        return total

    return loss


def ldml(bias=1.0):
    """Negative log-likelihood of all ordered pairs."""

    def loss(A, y, B, yb, own):
        return sum(
            float(np.logaddexp(0, (1 if yb[j] == y[i] else -1) * (D[j] - bias)))
            for i, columns, D in rows(A, B, own)
            for j in columns
        )

    return loss


def log_ratio(squared=True, metric="sqeuclidean", eps_distance=0.0, eps_log=0.0):
    def loss(A, y, B, yb, own):
        anchors, tied = [], rounding(y, yb, metric)
        for i, columns, D in rows(A, B, own):
            t = {j: label_distance(y[i], yb[j], metric) for j in columns}
            used = [j for j in columns if t[j] > tied(t[j], 0)]
            e = {j: math.log(delta(D[j], squared, eps_distance) + eps_log) - math.log(t[j])
                 for j in used}  # fmt: skip
            pairs = [(e[j] - e[k]) ** 2 for j, k in itertools.combinations(used, 2)]
            if pairs:
                anchors.append(mean(pairs))
        return mean(anchors)

    return loss


def ratio(squared=True, metric="sqeuclidean", eps_distance=0.0, of=lambda a, b: a / b):
    def loss(A, y, B, yb, own):
        anchors, tied = [], rounding(y, yb, metric)
        for i, columns, D in rows(A, B, own):
            t = {j: label_distance(y[i], yb[j], metric) for j in columns}
            used = [j for j in columns if t[j] > tied(t[j], 0)]
            d = {j: delta(D[j], squared, eps_distance) for j in used}
            pairs = [(of(d[j], d[k]) - of(t[j], t[k])) ** 2
                     for j, k in itertools.permutations(used, 2)]  # fmt: skip
            if pairs:
                anchors.append(mean(pairs))
        return mean(anchors)

    return loss


bounded_ratio = partial(ratio, of=lambda a, b: a / (a + b))


def triplet(margin=0.2, mining="all", dense=False, squared=True, reduction="mean_nonzero"):
    def loss(A, y, B, yb, own):
        hinges, anchors = [], 0
        for i, columns, D in rows(A, B, own):
            d = D if squared else np.sqrt(D)
            if dense:
                t = {j: label_distance(y[i], yb[j]) for j in columns}
                t = with_ties(t, rounding(y, yb, "sqeuclidean"))
                pairs = [(p, n) for p in columns for n in columns if t[n] > t[p]]
            else:
                pairs = [(p, n) for p in columns for n in columns if yb[p] == y[i] != yb[n]]
            anchors += bool(pairs)
            if mining == "semihard":
                pairs = [(p, n) for p, n in pairs if d[p] < d[n]]
            if mining == "hardest" and pairs:
                pairs = [max(pairs, key=lambda pair: d[pair[0]] - d[pair[1]])]
            hinges += [max(d[p] - d[n] + margin, 0.0) for p, n in pairs]
        total, active = sum(hinges), sum(h > 0 for h in hinges)
        by = {"sum": 1, "mean": anchors, "mean_nonzero": active}[reduction]
        return total / max(by, 1)

    return loss


def contrastive(pos_margin=0.0, neg_margin=1.0, power=1, reduction="mean_nonzero"):
    def loss(A, y, B, yb, own):
        sides = [], []
        for i, columns, D in rows(A, B, own):
            for j in columns:
                d, same = math.sqrt(D[j]), y[i] == yb[j]
                hinge = max(d - pos_margin if same else neg_margin - d, 0.0) ** power
                sides[0 if same else 1].append(hinge)
        if reduction == "sum":
            return sum(map(sum, sides))
        if reduction == "mean":
            return sum(map(mean, sides))
        return sum(mean([h for h in side if h > 0]) for side in sides)

    return loss


def two_sides(A, y, B, yb, own):
    """Yield the inner products of each anchor with its class and with the others."""
    for i in range(len(A)):
        columns = [j for j in range(len(B)) if not (own and j == i)]
        s = {j: float(A[i] @ B[j]) for j in columns}
        yield [s[j] for j in columns if yb[j] == y[i]], [s[j] for j in columns if yb[j] != y[i]]


def multi_similarity(alpha=2.0, beta=50.0, base=0.5):
    def loss(A, y, B, yb, own):
        anchors = []
        for p, n in two_sides(A, y, B, yb, own):
            pull = log_sum([0.0] + [-alpha * (s - base) for s in p]) / alpha
            push = log_sum([0.0] + [beta * (s - base) for s in n]) / beta
            anchors.append(pull + push)
        return mean(anchors)

    return loss


def supcon(temperature=0.1):
    def loss(A, y, B, yb, own):
        anchors = []
        for p, n in two_sides(A, y, B, yb, own):
            everything = log_sum([s / temperature for s in p + n])
            if p:
                anchors.append(mean([everything - s / temperature for s in p]))
        return mean(anchors)

    return loss


def ntxent(temperature=0.07):
    def loss(A, y, B, yb, own):
        pairs = []
        for p, n in two_sides(A, y, B, yb, own):
            if n:
                pairs += [log_sum([x / temperature for x in [s, *n]]) - s / temperature for s in p]
        return mean(pairs)

    return loss


def circle(margin=0.25, gamma=256.0):
    def loss(A, y, B, yb, own):
        anchors = []
        for p, n in two_sides(A, y, B, yb, own):
            if p and n:
                pull = [-gamma * max(1 + margin - s, 0) * (s - 1 + margin) for s in p]
                push = [gamma * max(s + margin, 0) * (s - margin) for s in n]
                anchors.append(log_sum([0.0, *(a + b for a in pull for b in push)]))
        return mean(anchors)

    return loss


def sigmoid(x, temperature):
    return (1 + math.tanh(x / temperature / 2)) / 2


def smooth_ap(temperature=0.01):
    def loss(A, y, B, yb, own):
        anchors = []
        for p, n in two_sides(A, y, B, yb, own):
            precisions = []
            for at, s in enumerate(p):
                near = 1 + sum(sigmoid(q - s, temperature) for q in p[:at] + p[at + 1 :])
                precisions.append(near / (near + sum(sigmoid(q - s, temperature) for q in n)))
            if p and n:
                anchors.append(1 - mean(precisions))
        return mean(anchors)

    return loss


def recall_at_k(k=(1, 2, 4, 8, 16), temperature=0.01, rank_temperature=1.0):
    def loss(A, y, B, yb, own):
        anchors = []
        for p, n in two_sides(A, y, B, yb, own):
            ranks = [0.5 + sum(sigmoid(q - s, temperature) for q in p + n) for s in p]
            if p and n:
                recalls = [sum(sigmoid(at - r, rank_temperature) for r in ranks) / min(at, len(p))
                           for at in ((k,) if isinstance(k, int) else k)]  # fmt: skip
                anchors.append(1 - mean(recalls))
        return mean(anchors)

    return loss


def lifted(neg_margin=1.0, pos_margin=0.0, squared=False):
    def loss(A, y, B, yb, own):
        anchors = []
        for i, columns, D in rows(A, B, own):
            d = D if squared else np.sqrt(D)
            pull = log_sum([d[j] - pos_margin for j in columns if y[i] == yb[j]])
            push = log_sum([neg_margin - d[j] for j in columns if y[i] != yb[j]])
            if math.isfinite(pull) and math.isfinite(push):
                anchors.append(max(pull + push, 0.0))
        return mean(anchors)

    return loss


def rank_n_contrast(temperature=2.0, metric="cityblock"):
    def loss(A, y, B, yb, own):
        anchors = []
        for i, columns, D in rows(A, B, own):
            t = {j: label_distance(y[i], yb[j], metric) for j in columns}
            t = with_ties(t, rounding(y, yb, metric))
            x = {j: -math.sqrt(D[j]) / temperature for j in columns}
            terms = [log_sum([x[k] for k in columns if t[k] >= t[j]]) - x[j] for j in columns]
            if terms:
                anchors.append(mean(terms))
        return mean(anchors)

    return loss


def proxy_nca(scale=1.0):
    def loss(A, y, B, yb, own):
        points = []
        for i, columns, D in rows(A, B, own):
            own_class = log_sum([-scale * D[j] for j in columns if yb[j] == y[i]])
            if math.isfinite(own_class):
                points.append(log_sum([-scale * D[j] for j in columns]) - own_class)
        return mean(points)

    return loss


def proxy_anchor(margin=0.1, alpha=32.0):
    def loss(A, y, B, yb, own):
        pull, push = [], []
        for p, label in zip(B, yb, strict=True):
            near = [float(a @ p) for a, c in zip(A, y, strict=True) if c == label]
            far = [float(a @ p) for a, c in zip(A, y, strict=True) if c != label]
            if near:
                pull.append(log_sum([0.0] + [-alpha * (s - margin) for s in near]))
            push.append(log_sum([0.0] + [alpha * (s + margin) for s in far]))
        return mean(pull) + mean(push)

    return loss


def cosent_of_pairs(similarities, scores, scale=20.0, near=lambda a, b: 0, weight=None):
    w = np.ones(len(scores)) if weight is None else weight
    terms = [
        scale * (similarities[b] - similarities[a]) + np.log(w[a] * w[b])
        for a in range(len(scores))
        for b in range(len(scores))
        if scores[a] - scores[b] > near(abs(scores[a]), abs(scores[b]))
    ]
    return log_sum([0.0, *terms])


def cosent(scale=20.0, metric="sqeuclidean"):
    def loss(A, y, B, yb, own):
        if not own:
            return cosent_of_pairs(np.sum(A * B, axis=1), y, scale)
        pairs = list(itertools.combinations(range(len(A)), 2))
        scores = np.array([-label_distance(y[i], y[j], metric) for i, j in pairs])
        similarities = [float(A[i] @ B[j]) for i, j in pairs]
        return cosent_of_pairs(similarities, scores, scale, rounding(y, yb, metric))

    return loss
