"""A fit that fails leaves nothing of an earlier one, which may have been of another width."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

import metricfast as mf
from metricfast import constraints

X, Y = load_wine(return_X_y=True)
X = scale(X)
PAIRS, PAIR_LABELS = constraints.wrap_pairs(
    X, constraints.Constraints(Y).positive_negative_pairs(40, random_state=0)
)
TRIPLETS = X[constraints.Constraints(Y).generate_knntriplets(X, 2, 2)]
QUADRUPLETS = np.concatenate([PAIRS[:40], PAIRS[40:80]], axis=1)
LABELLED = [
    *(
        mf.NCA,
        mf.LMNN,
        mf.MCML,
        mf.LDML,
        mf.LFDA,
        mf.ANMM,
        mf.DMLMJ,
        mf.NCMML,
        mf.RCA,
        mf.Covariance,
    ),
    *(mf.ITML_Supervised, mf.SDML_Supervised, mf.LSML_Supervised, mf.MMC_Supervised),
    *(mf.SCML_Supervised, mf.RCA_Supervised, mf.GMML_Supervised, mf.OASIS_Supervised),
]
FITS = {
    **dict.fromkeys((mf.ITML, mf.GMML, mf.SDML, mf.MMC), (PAIRS, PAIR_LABELS)),
    **dict.fromkeys((mf.SCML, mf.OASIS), (TRIPLETS,)),
    mf.LSML: (QUADRUPLETS,),
    **dict.fromkeys(LABELLED, (X, Y)),
}


@pytest.mark.parametrize("learner", FITS, ids=lambda learner: learner.__name__)
def test_nothing_is_left_of_the_fit_before(learner):
    data, *labels = FITS[learner]
    model = clone(learner())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data, *labels)
        narrower = np.full_like(data[..., :5], np.nan)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(narrower, *labels)
    left = {name for name in vars(model) if name.endswith("_")}
    assert left <= {"preprocessor_", "n_features_in_"}
    with pytest.raises(NotFittedError):
        model.pair_score(PAIRS)
