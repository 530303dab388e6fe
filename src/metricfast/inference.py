"""Sets of neighbours whose vote is right, or costs most: the inference of latent neighbour sets."""

from metricfast.distances.inference import (
    Inference,
    both,
    check_loss_matrix,
    loss_augmented,
    targeted,
)

__all__ = ["Inference", "both", "check_loss_matrix", "loss_augmented", "targeted"]
