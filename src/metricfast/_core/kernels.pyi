"""The compiled kernels as type checkers see them: a module that `get_kernels` returns."""

from collections.abc import Callable
from typing import Any, Protocol, type_check_only

from numpy import float64, int64
from numpy.typing import NDArray

A = NDArray[Any]
Rows = NDArray[int64] | None
Totals = tuple[float, int, int, int, int]

@type_check_only
class LossCall(Protocol):
    queries: A
    database: A | None
    kind: str
    y: A
    y_database: A
    weight: NDArray[float64] | None
    column_weight: NDArray[float64] | None
    exclude: Rows
    reduction: str
    threads: int
    gradient: A
    database_gradient: A | None

@type_check_only
class Kernels(Protocol):
    # build and threads
    def build_info(self) -> dict[str, str]: ...
    def default_threads(self) -> int: ...
    def available_cpus(self) -> int: ...
    def threads_used(self, threads: int, /) -> int: ...
    def all_finite(self, x: A) -> bool: ...
    # distances
    def pairwise_distances(
        self, x: A, y: A, U: A | None, V: A | None, squared: bool, out: A, threads: int, /
    ) -> None: ...
    def paired_distances(
        self,
        x: A,
        y: A,
        pairs: Rows,
        U: A | None,
        V: A | None,
        squared: bool,
        out: A,
        threads: int,
        /,
    ) -> None: ...
    def kneighbors(
        self,
        x: A,
        y: A,
        k: int,
        U: A | None,
        V: A | None,
        exclude: Rows,
        squared: bool,
        distances: A,
        indices: A,
        threads: int,
        /,
    ) -> None: ...
    def kneighbors_per_class(
        self,
        x: A,
        y: A,
        labels: A,
        classes: int,
        k: int,
        U: A | None,
        V: A | None,
        exclude: Rows,
        squared: bool,
        distances: A,
        indices: A,
        threads: int,
        /,
    ) -> None: ...
    def find_impostors(
        self, x: A, labels: A, classes: int, radius: A, limit: int, threads: int, /
    ) -> tuple[NDArray[int64], NDArray[int64]] | None: ...
    def infer(
        self,
        queries: A,
        database: A | None,
        labels: A,
        database_labels: A,
        k: int,
        classes: int,
        loss_matrix: A | None,
        ties: str,
        greedy: bool,
        exclude: Rows,
        targeted: Any,
        augmented: Any,
        plain: A | None,
        wrong: A | None,
        threads: int,
        /,
    ) -> None: ...
    # embeddings
    def linear_forward(self, x: A, L: A, z: A, threads: int, /) -> None: ...
    def linear_backward(self, dz: A, x: A, threads: int, /) -> NDArray[float64]: ...
    def layers_forward(
        self,
        x: Any,
        weights: list[Any],
        biases: list[Any],
        activation: str,
        outputs: list[Any],
        threads: int,
        /,
    ) -> None: ...
    def layers_backward(
        self,
        x: Any,
        weights: list[Any],
        biases: list[Any],
        activation: str,
        outputs: list[Any],
        deltas: list[Any],
        weight_gradients: list[Any],
        bias_gradients: list[Any],
        threads: int,
        /,
    ) -> None: ...
    def normalize_forward(self, z: A, lengths: A, threads: int, /) -> None: ...
    def normalize_backward(self, u: A, lengths: A, gradient: A, threads: int, /) -> None: ...
    def adam_step(self, *arrays_and_numbers: Any) -> None: ...
    def momentum_step(self, *arrays_and_numbers: Any) -> None: ...
    # losses
    def given(
        self,
        queries: A,
        database: A | None,
        row_starts: Rows,
        columns: Rows,
        gradient: A,
        database_gradient: A | None,
        threads: int,
        weights: A,
    ) -> Totals: ...
    def nca(self, call: LossCall, *, log_form: bool) -> Totals: ...
    def mlkr(self, call: LossCall) -> Totals: ...
    def mcml(self, call: LossCall) -> Totals: ...
    def ldml(self, call: LossCall, *, bias: float, bias_gradient: A) -> Totals: ...
    def lmnn(
        self,
        call: LossCall,
        *,
        regularization: float,
        margin: float,
        targets: A,
        row_starts: Rows,
        columns: Rows,
    ) -> Totals: ...
    def triplet(self, call: LossCall, *, margin: float, mining: str, squared: bool) -> Totals: ...
    def dense_triplet(
        self, call: LossCall, *, margin: float, mining: str, squared: bool
    ) -> Totals: ...
    def contrastive(
        self,
        call: LossCall,
        *,
        positive_margin: float,
        negative_margin: float,
        squared_hinge: bool,
        mean: str,
    ) -> Totals: ...
    def softplus_pairs(
        self,
        call: LossCall,
        *,
        alpha: float,
        base_positive: float,
        f_positive: float,
        beta: float,
        base_negative: float,
        f_negative: float,
    ) -> Totals: ...
    def supcon(self, call: LossCall, *, temperature: float) -> Totals: ...
    def ntxent(self, call: LossCall, *, temperature: float) -> Totals: ...
    def lifted(
        self, call: LossCall, *, positive_margin: float, negative_margin: float, squared: bool
    ) -> Totals: ...
    def log_ratio(
        self,
        call: LossCall,
        *,
        squared: bool,
        drop_ties: bool,
        eps_distance: float,
        eps_log: float,
    ) -> Totals: ...
    def plain_ratio(
        self,
        call: LossCall,
        *,
        squared: bool,
        drop_ties: bool,
        eps_distance: float,
        eps_log: float,
    ) -> Totals: ...
    def bounded_ratio(
        self,
        call: LossCall,
        *,
        squared: bool,
        drop_ties: bool,
        eps_distance: float,
        eps_log: float,
    ) -> Totals: ...
    def rank_n_contrast(self, call: LossCall, *, temperature: float) -> Totals: ...
    def circle(self, call: LossCall, *, margin: float, gamma: float) -> Totals: ...
    def smooth_ap(self, call: LossCall, *, temperature: float) -> Totals: ...
    def recall_at_k(
        self, call: LossCall, *, k: A, temperature: float, rank_temperature: float
    ) -> Totals: ...
    def compiled(self, call: LossCall, *, function: int, data: int, metric: str) -> Totals: ...
    def cosent(
        self, similarities: A, scores: A, *, rounding: float, scale: float, weights: A
    ) -> tuple[float, int]: ...
    # learners of constraints
    def itml(
        self,
        x: A,
        pairs: A,
        similar: int,
        M: A,
        duals: A,
        upper: float,
        lower: float,
        gamma: float,
        after_sweep: Callable[..., Any],
        /,
    ) -> None: ...
    def lsml_loss(
        self, x: A, quadruplets: A, weights: A, L: A, threads: int, /
    ) -> tuple[float, NDArray[float64]]: ...
    def sum_of_distances(
        self, x: A, pairs: A, L: A, diagonal: bool, squared: bool, threads: int, /
    ) -> tuple[Any, ...]: ...
    def oasis(
        self, x: A, triplets: A, weights: A | None, order: A, C: float, W: A, /
    ) -> tuple[Any, ...]: ...
    def group_scatter(
        self, x: A, weights: A, group: A, means: A, scale: A, scatter: A, threads: int, /
    ) -> None: ...
    def local_scatter(self, x: A, weights: A, k: int, scatter: A, threads: int, /) -> None: ...
    def scml(
        self,
        x: A,
        triplets: A,
        basis: A,
        beta: float,
        gamma: float,
        batch: int,
        weights: A,
        next_draws: Callable[..., Any],
        /,
    ) -> None: ...
    def triplet_objective(
        self, x: A, triplets: A, L: A, weights: A | None, margin: float, threads: int, /
    ) -> tuple[float, float]: ...
