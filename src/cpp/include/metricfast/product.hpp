/// Products of matrices that do not depend on where in memory they begin.
#pragma once

#include "metricfast/types.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// out = a b, for an `out` in memory of the caller's. Small products Eigen computes value by value,
/// with registers only where `out` is aligned to them, and the two ways round differently: those
/// are computed in memory of their own.
template <class A, class B, class Out> void multiply(const A &a, const B &b, Out &&out) {
    if (a.rows() + a.cols() + b.cols() < EIGEN_GEMM_TO_COEFFBASED_THRESHOLD)
        out = (a * b).eval();
    else
        out.noalias() = a * b;
}

} // namespace detail

METRICFAST_NAMESPACE_END
