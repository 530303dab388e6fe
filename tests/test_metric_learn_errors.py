"""Errors of metric-learn 0.7: their types, and their texts to the letter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import LinAlgError
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import metricfast as mf
from metricfast.exceptions import NonPSDError, PreprocessorError

X, Y = load_iris(return_X_y=True)
NAMES = {name: getattr(mf, name) for name in mf.learners.__all__} | {
    "Constraints": mf.Constraints,
    "LABELS": [1, 1, -1, -1],
    "PAIRS": X[[[0, 1], [50, 52], [0, 60], [100, 3]]],
    "QUADRUPLETS": X[[[0, 1, 0, 60], [51, 52, 51, 0], [3, 4, 2, 120]]],
    "TRIPLETS": X[[[0, 1, 60], [51, 52, 0], [101, 103, 2], [1, 2, 100]]],
    "X": X,
    "Y": Y,
    "np": np,
}
# What metric-learn 0.7 raises with scikit-learn 1.4, and which calls get it to.
ERRORS = [
    (
        ValueError,
        "2D array of formed points expected by NCA. Found 1D array instead:\ninput=[1 2 3]. Reshape your data and/or use a preprocessor.\n",
        ["NCA().fit([1, 2, 3], [0, 1, 0])"],
    ),
    (
        ValueError,
        "2D array of formed points expected by NCA. Found 3D array instead:\ninput=[[[1. 2.]]]. Reshape your data.\n",
        ["NCA().fit([[[1.0, 2.0]]], [0])"],
    ),
    (
        ValueError,
        "1D array of indicators or 2D array of formed points expected by NCA when using a preprocessor. Found 3D array instead:\ninput=[[[1. 2.]]]. Reshape your data.\n",
        ["NCA(preprocessor=X).fit([[[1.0, 2.0]]], [0])"],
    ),
    (
        ValueError,
        "2D array of formed points expected by NCA after the preprocessor has been applied. Found 1D array instead:\ninput=[1. 1.]. Reshape your data and/or use a preprocessor.\n",
        ["NCA(preprocessor=lambda i: np.ones(2)).fit([0, 1], [0, 1])"],
    ),
    (
        ValueError,
        "Invalid type for the preprocessor: <class 'int'>. You should provide either None, an array-like object, or a callable.",
        ["NCA(preprocessor=3).fit(X, Y)"],
    ),
    (
        PreprocessorError,
        "An error occurred when trying to use the preprocessor: IndexError('no such image')",
        [
            "NCA(preprocessor=fail).fit([0, 1], [0, 1])",
            "ITML(preprocessor=fail).fit([[0, 1]], [1])",
        ],
    ),
    (
        ValueError,
        "Found input variables with inconsistent numbers of samples: [150, 149]",
        ["NCA().fit(X, Y[:-1])"],
    ),
    (
        ValueError,
        "2D array of formed points expected by Covariance. Found 1D array instead:\ninput=[1 2]. Reshape your data and/or use a preprocessor.\n",
        ["Covariance().fit(X).transform([1, 2])"],
    ),
    (
        ValueError,
        "3D array of formed tuples expected by ITML. Found 2D array instead:\ninput=[[0 1]\n [2 3]]. Reshape your data and/or use a preprocessor.\n",
        ["ITML().fit([[0, 1], [2, 3]], [1, -1])"],
    ),
    (
        ValueError,
        "3D array of formed tuples expected by ITML. Found 1D array instead:\ninput=[0 1]. Reshape your data.\n",
        ["ITML().fit([0, 1], [1, -1])"],
    ),
    (
        ValueError,
        "3D array of formed tuples expected by ITML. Found 4D array instead:\ninput=[[[[0.]]]]. Reshape your data.\n",
        ["ITML().fit([[[[0.0]]]], [1])"],
    ),
    (
        ValueError,
        "2D array of indicators or 3D array of formed tuples expected by ITML when using a preprocessor. Found 1D array instead:\ninput=[0 1]. Reshape your data.\n",
        ["ITML(preprocessor=X).fit([0, 1], [1, -1])"],
    ),
    (
        ValueError,
        "2D array of indicators or 3D array of formed tuples expected by ITML when using a preprocessor. Found 4D array instead:\ninput=[[[[0.]]]]. Reshape your data.\n",
        ["ITML(preprocessor=X).fit([[[[0.0]]]], [1])"],
    ),
    (
        ValueError,
        "Tuples of 2 element(s) expected by ITML. Got tuples of 3 element(s) instead (shape=(1, 3, 1)):\ninput=[[[0.]\n  [2.]\n  [4.]]].\n",
        ["ITML().fit([[[0.0], [2.0], [4.0]]], [1])"],
    ),
    (
        ValueError,
        "Tuples of 2 element(s) expected by MMC. Got tuples of 3 element(s) instead (shape=(1, 3, 1)):\ninput=[[[0.]\n  [2.]\n  [4.]]].\n",
        ["MMC().fit([[[0.0], [2.0], [4.0]]], [1])"],
    ),
    (
        ValueError,
        "Tuples of 2 element(s) expected by SDML. Got tuples of 3 element(s) instead (shape=(1, 3, 1)):\ninput=[[[0.]\n  [2.]\n  [4.]]].\n",
        ["SDML().fit([[[0.0], [2.0], [4.0]]], [1])"],
    ),
    (
        ValueError,
        "Tuples of 3 element(s) expected by SCML. Got tuples of 2 element(s) instead (shape=(1, 2, 1)):\ninput=[[[0.]\n  [2.]]].\n",
        ["SCML().fit([[[0.0], [2.0]]])"],
    ),
    (
        ValueError,
        "Tuples of 4 element(s) expected by LSML. Got tuples of 2 element(s) instead (shape=(1, 2, 1)):\ninput=[[[0.]\n  [2.]]].\n",
        ["LSML().fit([[[0.0], [2.0]]])"],
    ),
    (
        ValueError,
        "Found array with 0 feature(s) (shape=(2, 2, 0)) while a minimum of 1 is required by ITML.",
        ["ITML().fit(np.ones((2, 2, 0)), [1, -1])"],
    ),
    (
        ValueError,
        "When training on pairs, the labels (y) should contain only values in [-1, 1]. Found an incorrect value.",
        [
            "ITML().fit(PAIRS, [0, 1, -1, 1])",
            "MMC().fit(PAIRS, [2, 1, -1, 1])",
            "SDML().fit(PAIRS, [2, 1, -1, 1])",
            "ITML().fit(PAIRS, LABELS).calibrate_threshold(PAIRS, [0, 1, 0, 1])",
        ],
    ),
    (
        ValueError,
        "Found input variables with inconsistent numbers of samples: [4, 2]",
        ["ITML().fit(PAIRS, [1, -1])"],
    ),
    (
        ValueError,
        "3D array of formed tuples expected by Covariance. Found 2D array instead:\ninput=[[1 2]]. Reshape your data and/or use a preprocessor.\n",
        ["Covariance().fit(X).pair_distance([[1, 2]])", "Covariance().fit(X).pair_score([[1, 2]])"],
    ),
    (
        ValueError,
        "Tuples of 2 element(s) expected by Covariance. Got tuples of 1 element(s) instead (shape=(1, 1, 4)):\ninput=[[[1. 2. 3. 4.]]].\n",
        ["Covariance().fit(X).pair_distance([[[1.0, 2.0, 3.0, 4.0]]])"],
    ),
    (ValueError, "Input vector should be 1-D.", ["Covariance().fit(X).get_metric()(X[:2], X[:2])"]),
    (
        NotFittedError,
        "This ITML instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator.",
        [
            "ITML().predict(PAIRS)",
            "ITML().transform(X)",
            "ITML().set_threshold(1.0)",
            "ITML().calibrate_threshold(PAIRS, LABELS)",
        ],
    ),
    (
        NotFittedError,
        "This SCML instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator.",
        ["SCML().predict(TRIPLETS)"],
    ),
    (
        NotFittedError,
        "This LSML instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator.",
        ["LSML().decision_function(QUADRUPLETS)"],
    ),
    (
        NotFittedError,
        "This Covariance instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator.",
        [
            "Covariance().get_metric()",
            "Covariance().get_mahalanobis_matrix()",
            "Covariance().pair_score(PAIRS)",
        ],
    ),
    (
        ValueError,
        "Parameter threshold must be a real number. Got <class 'str'> instead.",
        ['ITML().fit(PAIRS, LABELS).set_threshold("a")'],
    ),
    (
        ValueError,
        "Parameter threshold must be a real number. Got <class 'NoneType'> instead.",
        ["ITML().fit(PAIRS, LABELS).set_threshold(None)"],
    ),
    (
        ValueError,
        'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". Got "weird" instead.',
        [
            'ITML().fit(PAIRS, LABELS, calibration_params={"strategy": "weird"})',
            'MMC().fit(PAIRS, LABELS, calibration_params={"strategy": "weird"})',
            'SDML().fit(PAIRS, LABELS, calibration_params={"strategy": "weird"})',
        ],
    ),
    (
        ValueError,
        "Parameter min_rate must be a number in[0, 1]. Got None instead.",
        ['ITML().fit(PAIRS, LABELS).calibrate_threshold(PAIRS, LABELS, strategy="max_tpr")'],
    ),
    (
        ValueError,
        "Parameter min_rate must be a number in[0, 1]. Got 1.5 instead.",
        ['ITML().fit(PAIRS, LABELS).calibrate_threshold(PAIRS, LABELS, "max_tnr", min_rate=1.5)'],
    ),
    (
        ValueError,
        "Parameter beta must be a real number. Got <class 'str'> instead.",
        ['ITML().fit(PAIRS, LABELS).calibrate_threshold(PAIRS, LABELS, "f_beta", beta="a")'],
    ),
    (
        ValueError,
        "`bounds` should be an array-like of two elements.",
        [
            "ITML().fit(PAIRS, LABELS, bounds=[1, 2, 3])",
            "ITML_Supervised().fit(X, Y, bounds=[1, 2, 3])",
        ],
    ),
    (
        ValueError,
        "Invalid n_components, must be in [1, 4]",
        [
            "LFDA(n_components=5).fit(X, Y)",
            "RCA(n_components=0).fit(X, Y)",
            "MLKR(n_components=5).fit(X, Y)",
            "NCA(n_components=5).fit(X, Y)",
            "LMNN(n_components=5).fit(X, Y)",
        ],
    ),
    (
        ValueError,
        "Not enough possible chunks of 2 elements in each class to form expected 100 chunks - maximum number of chunks is 75",
        ["RCA_Supervised(n_components=-1).fit(X, Y)"],
    ),
    (ValueError, "Invalid embedding_type: 'weird'", ['LFDA(embedding_type="weird").fit(X, Y)']),
    (
        ValueError,
        "`init` must be 'auto', 'pca', 'identity', 'random' or a numpy array of shape (n_components, n_features).",
        ['MLKR(init="lda").fit(X, Y)'],
    ),
    (
        ValueError,
        "The input dimensionality (3) of the given linear transformation `init` must match the dimensionality of the given inputs `X` (4).",
        ["NCA(init=np.eye(3)).fit(X, Y)"],
    ),
    (
        ValueError,
        "The output dimensionality (5) of the given linear transformation `init` cannot be greater than its input dimensionality (4).",
        ["NCA(init=np.ones((5, 4))).fit(X, Y)"],
    ),
    (
        ValueError,
        "The preferred dimensionality of the projected space `n_components` (3) does not match the output dimensionality of the given linear transformation `init` (2)!",
        ["NCA(init=np.eye(4)[:2], n_components=3).fit(X, Y)"],
    ),
    (
        ValueError,
        "n_basis should be an integer, instead it is of type <class 'float'>",
        ["SCML(n_basis=4.0).fit(TRIPLETS)"],
    ),
    (
        ValueError,
        "max_iter should be an integer, instead it is of type <class 'float'>",
        ["SCML(max_iter=1.0).fit(TRIPLETS)"],
    ),
    (
        ValueError,
        "output_iter should be an integer, instead it is of type <class 'float'>",
        ["SCML(output_iter=1.0).fit(TRIPLETS)"],
    ),
    (
        ValueError,
        "batch_size should be an integer, instead it is of type <class 'float'>",
        ["SCML(batch_size=1.0).fit(TRIPLETS)"],
    ),
    (
        ValueError,
        "The value of output_iter must be equal or smaller than max_iter.",
        ["SCML(output_iter=2, max_iter=1).fit(TRIPLETS)"],
    ),
    (
        ValueError,
        "`basis` must be one of the options 'triplet_diffs' or an array of shape (n_basis, n_features).",
        ['SCML(basis="lda").fit(TRIPLETS)'],
    ),
    (
        ValueError,
        "The dimensionality (3) of the provided bases must match the dimensionality of the data (4).",
        ["SCML(basis=np.eye(3), n_basis=3).fit(TRIPLETS)"],
    ),
    (
        ValueError,
        "Number of features (4) is greater than the number of triplets(2).\nConsider using dimensionality reduction or using another basis generation scheme.",
        ["SCML(n_basis=10).fit(TRIPLETS[:2])"],
    ),
    (
        ValueError,
        "k_genuine should be an integer, instead it is of type <class 'float'>",
        ["SCML_Supervised(k_genuine=1.0, n_basis=60).fit(X, Y)"],
    ),
    (
        ValueError,
        "k_impostor should be an integer, instead it is of type <class 'float'>",
        ["SCML_Supervised(k_impostor=1.0, n_basis=60).fit(X, Y)"],
    ),
    (
        ValueError,
        "`basis` must be one of the options 'triplet_diffs', 'lda' or an array of shape (n_basis, n_features).",
        ['SCML_Supervised(basis="weird").fit(X, Y)'],
    ),
    (
        ValueError,
        "Not enough samples to generate 600 LDA bases, n_basisshould be smaller than 600",
        ["SCML_Supervised(n_basis=600).fit(X, Y)"],
    ),
    (ValueError, "Cannot fit SDML with 1 feature(s)", ["SDML().fit(PAIRS[..., :1], LABELS)"]),
    (
        ValueError,
        "Not enough possible chunks of 3 elements in each class to form expected 100 chunks - maximum number of chunks is 32",
        ["RCA_Supervised(chunk_size=3).fit(X[:100], Y[:100])"],
    ),
    (
        ValueError,
        "Not enough possible chunks of 2 elements in each class to form expected 3 chunks - maximum number of chunks is 2",
        ["Constraints([0, 0, 1, 1]).chunks(3, 2)"],
    ),
    (
        ValueError,
        "Unknown value weird for type_of_inputs. Valid values are 'classic' or 'tuples'.",
        ['NCA()._prepare_inputs(X, type_of_inputs="weird")'],
    ),
    (
        ValueError,
        "`prior` must be 'identity', 'covariance', 'random' or a numpy array of shape (n_features, n_features).",
        [
            'ITML(prior="weird").fit(PAIRS, LABELS)',
            'ITML_Supervised(prior="weird").fit(X, Y)',
            'SDML(prior="weird").fit(PAIRS, LABELS)',
            'SDML_Supervised(prior="weird").fit(X, Y)',
            'LSML(prior="weird").fit(QUADRUPLETS)',
            'LSML_Supervised(prior="weird").fit(X, Y)',
        ],
    ),
    (
        ValueError,
        "The input dimensionality (3, 3) of the given mahalanobis matrix `prior` must match the dimensionality of the given inputs (4).",
        [
            "ITML(prior=np.eye(3)).fit(PAIRS, LABELS)",
            "SDML(prior=np.eye(3)).fit(PAIRS, LABELS)",
            "LSML(prior=np.eye(3)).fit(QUADRUPLETS)",
        ],
    ),
    (
        ValueError,
        "The input dimensionality (4, 3) of the given mahalanobis matrix `prior` must match the dimensionality of the given inputs (4).",
        [
            "ITML(prior=np.ones((4, 3))).fit(PAIRS, LABELS)",
            "SDML(prior=np.ones((4, 3))).fit(PAIRS, LABELS)",
            "LSML(prior=np.ones((4, 3))).fit(QUADRUPLETS)",
        ],
    ),
    (
        ValueError,
        "`prior` is not symmetric.",
        [
            "ITML(prior=np.tri(4)).fit(PAIRS, LABELS)",
            "SDML(prior=np.tri(4)).fit(PAIRS, LABELS)",
            "LSML(prior=np.tri(4)).fit(QUADRUPLETS)",
        ],
    ),
    (
        NonPSDError,
        "Matrix is not positive semidefinite (PSD).",
        [
            "ITML(prior=np.diag([1, 1, 1, -1.0])).fit(PAIRS, LABELS)",
            "SDML(prior=np.diag([1, 1, 1, -1.0])).fit(PAIRS, LABELS)",
            "LSML(prior=np.diag([1, 1, 1, -1.0])).fit(QUADRUPLETS)",
            "MMC(init=np.diag([1, 1, 1, -1.0])).fit(PAIRS, LABELS)",
        ],
    ),
    (
        LinAlgError,
        "You should provide a strictly positive definite matrix as `prior`. This one is not definite. Try another prior, or an algorithm that does not require the prior to be strictly positive definite.",
        [
            "ITML(prior=np.diag([1, 1, 1, 0.0])).fit(PAIRS, LABELS)",
            "SDML(prior=np.diag([1, 1, 1, 0.0])).fit(PAIRS, LABELS)",
            "LSML(prior=np.diag([1, 1, 1, 0.0])).fit(QUADRUPLETS)",
        ],
    ),
    (
        ValueError,
        "`init` must be 'identity', 'covariance', 'random' or a numpy array of shape (n_features, n_features).",
        ['MMC(init="weird").fit(PAIRS, LABELS)', 'MMC_Supervised(init="weird").fit(X, Y)'],
    ),
    (
        ValueError,
        "The input dimensionality (3, 3) of the given mahalanobis matrix `init` must match the dimensionality of the given inputs (4).",
        ["MMC(init=np.eye(3)).fit(PAIRS, LABELS)"],
    ),
    (
        ValueError,
        "The input dimensionality (4, 3) of the given mahalanobis matrix `init` must match the dimensionality of the given inputs (4).",
        ["MMC(init=np.ones((4, 3))).fit(PAIRS, LABELS)"],
    ),
    (ValueError, "`init` is not symmetric.", ["MMC(init=np.tri(4)).fit(PAIRS, LABELS)"]),
]


def fail(indices):
    raise IndexError("no such image")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [pytest.param(call, *row[:2], id=call) for row in ERRORS for call in row[2]],
)
def test_error(call, error, text):
    with pytest.raises(error) as raised:
        eval(call, NAMES | {"fail": fail})
    assert type(raised.value) is error
    assert str(raised.value) == text


def test_kinds_of_errors():
    assert issubclass(NonPSDError, LinAlgError)
    assert str(NonPSDError()) == "Matrix is not positive semidefinite (PSD)."
    assert isinstance(PreprocessorError(KeyError(3)).original_error, KeyError)
