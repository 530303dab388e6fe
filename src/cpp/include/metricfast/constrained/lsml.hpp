/// The comparison loss of LSML (Liu et al. 2012).
#pragma once

#include "metricfast/constrained/differences.hpp"

METRICFAST_NAMESPACE_BEGIN

/// sum_i w_i max(0, d(a,b) - d(c,d))^2 over quadruplets (a, b, c, d), with d(x,y) = ||L(x - y)||,
/// and its gradient in M = L^T L, which is the scatter. The derivative in the squared distance of a
/// pair of length 0 is infinite. It is set to 0, since its difference is zero.
/// \param weights w, one per quadruplet
inline ValueAndScatter lsml_loss(const Points &points, const TupleList &quadruplets,
                                 Weights weights, View<const double> L,
                                 const Control &control = {}) {
    require(quadruplets.size == 4, "lsml_loss: expected quadruplets");
    quadruplets.check(points);
    require(weights.size() == quadruplets.count(),
            "lsml_loss: there must be one weight per quadruplet");
    require_weights(weights, "lsml_loss: weights must be finite and not negative");
    const auto weigh = [&](Index i, const double *lengths, double *out) {
        const double near = lengths[0], far = lengths[1], excess = near - far;
        const bool violated = !(excess <= 0); // also if lengths overflow, which makes the value NaN
        out[0] = violated ? weights[i] * excess / near : 0.0;
        out[1] = violated && far > 0 ? -weights[i] * excess / far : 0.0;
        return violated ? weights[i] * excess * excess : 0.0;
    };
    return detail::sum_differences(points, quadruplets, detail::FullMetric(L), weigh, control);
}

METRICFAST_NAMESPACE_END
