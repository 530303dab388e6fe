"""
Poses: found pictures are 43 % nearer in pose
=============================================

Find pictures of people in the same pose.

The label of a picture is a pose, 16 joints in the plane. The distance of two poses is the mean
distance of their joints. Pictures are stick figures of these poses. Clutter, light and thickness
change from picture to picture, so similar pixels may mean different poses. The learner gets the
label distance once, and uses it for its loss, its batches and its score.

The program makes the poses. ``python poses.py mpii_poses.npz`` takes poses from a file, with Y of
shape (n, 16, 2), in the order of the joints of MPII.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from scipy.ndimage import gaussian_filter
from scipy.spatial.distance import cdist

import metricfast
from metricfast.metrics import retrieval_report
from metricfast.plotting import NeighborsDisplay

# Joints of MPII: right ankle, knee, hip; left hip, knee, ankle; pelvis, chest, neck, head; right
# wrist, elbow, shoulder; left shoulder, elbow, wrist.
BONES = [(6, 2), (2, 1), (1, 0), (6, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 9)]
BONES += [(7, 12), (12, 11), (11, 10), (7, 13), (13, 14), (14, 15)]
LENGTHS = [0.15, 0.5, 0.5, 0.15, 0.5, 0.5, 0.6, 0.15, 0.25, 0.2, 0.35, 0.35, 0.2, 0.35, 0.35]
# Direction of each bone, in degrees clockwise from the right, and its largest deviation.
REST = [180, 90, 90, 0, 90, 90, 270, 270, 270, 180, 90, 90, 0, 90, 90]
SWING = [5, 35, 30, 5, 35, 30, 12, 8, 10, 8, 70, 60, 8, 70, 60]
SIDE = 20


def make_poses(n, rng):
    """Turn the bones of a skeleton at random, limbs along with the bones they hang on."""
    joints, turns = np.zeros((n, 16, 2)), np.zeros((n, 16))
    for (parent, child), length, rest, swing in zip(BONES, LENGTHS, REST, SWING, strict=True):
        turns[:, child] = turns[:, parent] + swing * rng.uniform(-1, 1, n)
        angle = np.radians(rest + turns[:, child])
        joints[:, child] = joints[:, parent] + length * np.c_[np.cos(angle), np.sin(angle)]
    return joints


def draw(joints, rng):
    """Draw poses, from -1.3 to 1.3 in both directions, as pictures of SIDE x SIDE pixels."""
    pixels = np.linspace(-1.3, 1.3, SIDE)
    grid = np.stack(np.meshgrid(pixels, pixels), axis=-1).reshape(-1, 2)
    pictures = np.empty((len(joints), SIDE, SIDE))
    for picture, pose in zip(pictures, joints, strict=True):
        ends = np.array([pose[list(bone)] for bone in BONES])
        along = ends[:, 1] - ends[:, 0]
        reach = np.einsum("pbd,bd->pb", grid[:, None] - ends[:, 0], along) / (along**2).sum(1).clip(
            1e-9
        )
        feet = ends[:, 0] + np.clip(reach, 0, 1)[:, :, None] * along
        away = np.linalg.norm(grid[:, None] - feet, axis=-1).min(axis=1)
        figure = np.exp(-((away / rng.uniform(0.06, 0.14)) ** 2)).reshape(SIDE, SIDE)
        clutter = gaussian_filter(rng.normal(size=(SIDE, SIDE)), 2.5) * 4
        picture[:] = rng.uniform(0.5, 1.5) * figure + clutter
    return pictures.reshape(len(joints), -1)


def joint_distance(a, b):
    """Mean distance of the joints, between all of two arrays of poses, (n, 32) and (m, 32)."""
    return sum(cdist(a[:, j : j + 2], b[:, j : j + 2]) for j in range(0, 32, 2)) / 16


rng = np.random.default_rng(0)
files = [name for name in sys.argv[1:] if name.endswith(".npz")]
if files and not Path(files[0]).exists():
    sys.exit(f"there is no file {files[0]}")
if files:
    with np.load(files[0]) as data:
        joints = data["Y"] - data["Y"].mean(axis=1, keepdims=True)
    joints /= np.abs(joints).max(axis=(1, 2), keepdims=True)  # equal size
else:
    joints = make_poses(1800, rng)
X, poses = draw(joints, rng), joints.reshape(len(joints), 32)
train, query, gallery = np.split(rng.permutation(len(X)), [-600, -450])

learner = metricfast.LogRatioLearner(
    16,
    hidden_layer_sizes=(128,),
    label_distance=joint_distance,
    random_state=0,
    solver=metricfast.solvers.Adam(
        learning_rate=0.002, schedule="cosine", weight_decay=0.01, max_epochs=12
    ),
).fit(X[train], poses[train])

# Picture: Four stick figures in clutter, each with its five nearest pictures: by pixels on the
# left, many in other poses, and by the learned map on the right, in similar poses.
embedded = {"by pixels": X, "by the learned map": learner.transform(X)}
_, panels = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
for panel, (name, Z) in zip(panels, embedded.items(), strict=True):
    nearest = gallery[metricfast.kneighbors(Z[query[:4]], Z[gallery], 5)[1]]
    away = [
        joint_distance(poses[[i]], poses[rows])[0]
        for i, rows in zip(query[:4], nearest, strict=True)
    ]
    pictures = X.reshape(-1, SIDE, SIDE)
    NeighborsDisplay.from_neighbors(
        away, nearest, images=pictures, query_images=pictures[query[:4]], ax=panel, cmap="gray"
    )
    panel.set_title(f"{name}: distances of poses")
plt.show()

# %%
# All queries:

found = {}
for name, Z in embedded.items():
    found[name] = retrieval_report(
        Z[query], poses[query], Z[gallery], poses[gallery], k=5, label_distance=joint_distance
    )
    print(f"{name}: poses of the 5 nearest pictures\n{found[name]}\n")
before, after = (report["ndcg_at_k"].interval for report in found.values())
if after[0] <= before[1]:
    sys.exit("the learned map finds poses no better than pixels do")
