"""Export learned maps to ONNX, alone or as steps of scikit-learn pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import metricfast
from metricfast._core.types import Array
from metricfast._exports import LEARNERS
from metricfast.embeddings import MLP, Asymmetric, Identity, Linear, Periodic
from metricfast.embeddings._base import NO_LENGTH, check_side
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.embedding.metric import EmbeddedMetricMixin

__all__ = ["register_converters", "to_onnx"]

# The first opset in which reductions take axes as inputs.
_OPSET = {"": 18, "ai.onnx.ml": 3}
_SIDES = {"side": ["query", "database"]}


def to_onnx(
    estimator: Any,
    *,
    side: str = "query",
    dtype: DTypeLike = np.float32,
    initial_types: list[tuple[str, Any]] | None = None,
    options: dict[Any, dict[str, Any]] | None = None,
) -> Any:
    """Return the map of a fitted learner, or a pipeline that holds one, as a model of ONNX.

    Its input is ``X`` of shape (n_samples, n_features), its output ``variable`` what `transform`
    returns, up to rounding; of a pipeline that ends in another estimator, what skl2onnx makes of
    that. Values that are not finite are not looked for.

    Parameters
    ----------
    estimator : estimator
        A learner that has `transform`, other than a `KernelizedMetricLearner`; or a
        `sklearn.pipeline.Pipeline` with such learners, and other steps that skl2onnx knows.
    side : {"query", "database"}, default="query"
        Which map to export, where there are two.
    dtype : {float32, float64}, default=float32
        Dtype of inputs and arithmetic of the model.
    initial_types : list of (str, skl2onnx type), optional
        The inputs of a pipeline that takes more than one array of numbers, as skl2onnx takes them.
    options : dict of dict, optional
        Options of skl2onnx for other steps, by their class, or the `id` of a step. The option
        ``zipmap`` of a classifier at the end is False by default with float64, in which runtimes
        have no dictionaries: probabilities are then an array.

    Returns
    -------
    onnx.ModelProto
        A model of opset 18. Its metadata have the version of metricfast.

    Raises
    ------
    TypeError
        If `estimator` is no such learner or pipeline, or its embedding is one of your own.
    ValueError
        If `side` or `dtype` is not as above.
    sklearn.exceptions.NotFittedError
        If `estimator` is not fitted.
    ImportError
        If the package skl2onnx is missing.

    Examples
    --------
    >>> import metricfast
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = metricfast.io.to_onnx(metricfast.LFDA(n_components=2).fit(X, y))
    >>> [output.name for output in model.graph.output]
    ['variable']
    """
    check_side(side)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    learners = [step for step in steps if type(step) in _exported()]
    if not learners:
        raise TypeError(
            "estimator must be a learner of metricfast that embeds points by a map of layers, or a "
            f"pipeline that holds one; got {estimator!r:.80}."
        )
    check_is_fitted(estimator)
    skl2onnx = register_converters()
    types = skl2onnx.common.data_types
    if initial_types is None:
        kind = types.FloatTensorType if np.dtype(dtype) == np.float32 else types.DoubleTensorType
        width = estimator.n_features_in_
        if side == "database" and isinstance(estimator, EmbeddedMetricMixin):
            width = len(estimator.mean_)
        initial_types = [("X", kind([None, width]))]
    of_steps: dict[Any, dict[str, Any]] = {id(learner): {"side": side} for learner in learners}
    if np.dtype(dtype) == np.float64 and steps[-1] not in learners and is_classifier(steps[-1]):
        of_steps[type(steps[-1])] = {"zipmap": False}
    model = skl2onnx.to_onnx(
        estimator, initial_types=initial_types, target_opset=_OPSET,
        options=of_steps | (options or {}),
    )  # fmt: skip
    model.metadata_props.add(key="metricfast", value=metricfast.__version__)
    return model


def register_converters() -> Any:
    """Register converters of the learners with skl2onnx, as `to_onnx` does.

    For pipelines that you give to ``skl2onnx.to_onnx`` yourself. The option ``side`` of a learner
    chooses among two maps.

    Returns
    -------
    module
        The package skl2onnx.

    Raises
    ------
    ImportError
        If it is missing.

    Examples
    --------
    >>> import metricfast
    >>> metricfast.onnx.register_converters().__name__
    'skl2onnx'
    """
    try:
        import skl2onnx
    except ImportError as error:
        raise ImportError(
            "export to ONNX needs the package skl2onnx: pip install onnx skl2onnx"
        ) from error
    for learner in _exported():
        skl2onnx.update_registered_converter(
            learner, _alias(learner), _set_shape, _convert, parser=_parse, options=_SIDES
        )
    return skl2onnx


def _exported() -> tuple[type, ...]:
    learners = [getattr(metricfast, name) for name in LEARNERS]
    return tuple(
        each for each in learners if issubclass(each, (MahalanobisMixin, EmbeddedMetricMixin))
    )


def _alias(learner: type) -> str:
    return f"Metricfast{learner.__name__}"


def _parse(scope: Any, learner: Any, inputs: list[Any], custom_parsers: Any = None) -> list[Any]:
    """Declare one output, also for learners that are classifiers and would get others."""
    del custom_parsers
    if len(inputs) > 1:
        raise TypeError(f"{type(learner).__name__} takes one array of points, got {len(inputs)}.")
    operator = scope.declare_local_operator(_alias(type(learner)), learner)
    operator.inputs.append(inputs[0])
    operator.outputs.append(scope.declare_local_variable("variable", type(inputs[0].type)()))
    outputs: list[Any] = operator.outputs
    return outputs


def _set_shape(operator: Any) -> None:
    given, learner = operator.inputs[0].type, operator.raw_operator
    operator.outputs[0].type = type(given)([given.shape[0], learner._n_features_out])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    learner = operator.raw_operator
    side = container.get_options(learner, {"side": "query"})["side"]
    double = type(operator.inputs[0].type).__name__ == "DoubleTensorType"
    graph = _Graph(scope, container, np.dtype(np.float64 if double else np.float32))
    X = graph.add("Cast", operator.inputs[0].full_name, to=11 if double else 1)
    if isinstance(learner, MahalanobisMixin):
        Z = graph.add("MatMul", X, learner.components_.T)
    else:
        embedding, parameters = learner.embedding_, learner.parameters_
        if type(embedding) is Asymmetric:
            embedding, parameters = embedding._side(parameters, side)
        Z = _embed(graph, graph.add("Sub", X, learner._mean(side)), embedding, parameters)
    graph.add("Identity", Z, output=operator.outputs[0].full_name)


class _Graph:
    """The nodes and constants of a model in one precision."""

    def __init__(self, scope: Any, container: Any, dtype: np.dtype[Any]) -> None:
        self.scope, self.container, self.dtype = scope, container, dtype

    def add(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add a node. Inputs are names, arrays or numbers. Returns the name of the output."""
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        output = output or self.scope.get_unique_variable_name(kind.lower())
        node = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, names, output, name=node, op_version=None, **attributes)
        return str(output)

    def _constant(self, value: Any) -> str:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        kind = {"float32": 1, "float64": 11, "int64": 7}[array.dtype.name]
        name = self.scope.get_unique_variable_name("constant")
        self.container.add_initializer(name, kind, list(array.shape), array.ravel().tolist())
        return str(name)


def _embed(graph: _Graph, Z: str, embedding: Any, parameters: list[Array]) -> str:
    if type(embedding) is Linear:
        Z = graph.add("MatMul", Z, parameters[0].T)
    elif type(embedding) is MLP:
        for layer in range(0, len(parameters), 2):
            Z = graph.add("MatMul", Z, parameters[layer].T)
            Z = graph.add("Add", Z, parameters[layer + 1])
            if layer < len(parameters) - 2 and embedding.activation != "identity":
                Z = graph.add(embedding.activation.capitalize(), Z)
    elif type(embedding) is Periodic:
        Z = _periodic(graph, Z, *parameters)
    elif type(embedding) is not Identity:
        raise TypeError(f"embedding_ must be one of metricfast, got {embedding!r:.80}.")
    return _unit(graph, Z) if embedding.normalize else Z


def _periodic(graph: _Graph, X: str, c: Array, A: Array, a: Array, L: Array) -> str:
    d, width = len(c), len(A)
    numbers = graph.add("Slice", X, np.array([0]), np.array([d]), np.array([1]))
    rest = graph.add("Slice", X, np.array([d]), np.array([2**31]), np.array([1]))
    turns = graph.add("Mul", graph.add("Unsqueeze", numbers, np.array([2])), c)
    # the remainder of the last turn, for which the sine is accurate
    turns = graph.add("Sub", turns, graph.add("Round", turns))
    angles = graph.add("Mul", turns, 2 * np.pi)
    waves = [graph.add("Cos", angles), graph.add("Sin", angles)]
    hidden = graph.add("MatMul", graph.add("Concat", *waves, axis=2), A.T)
    hidden = graph.add("Relu", graph.add("Add", hidden, a))
    flat = graph.add("Reshape", hidden, np.array([-1, d * width]))
    return graph.add("MatMul", graph.add("Concat", flat, rest, axis=1), L.T)


def _unit(graph: _Graph, Z: str) -> str:
    """Divide rows by their length. Rows of length 0 become zero."""
    most = graph.add("ReduceMax", graph.add("Abs", Z), np.array([1]))  # squares may overflow
    Z = graph.add("Div", Z, graph.add("Max", most, 1e-30))
    length = graph.add("ReduceL2", Z, np.array([1]))
    long = graph.add("Greater", graph.add("Mul", length, most), NO_LENGTH)
    unit = graph.add("Div", Z, graph.add("Max", length, 0.5))
    return graph.add("Where", long, unit, 0.0)
