/// Multi-similarity, proxy-anchor, supervised contrastive and generalised lifted-structure losses.
#pragma once

#include "metricfast/losses/two_sided.hpp"

METRICFAST_NAMESPACE_BEGIN

/// f_p log(1 + sum_p exp(-alpha (s - base_p))) + f_n log(1 + sum_n exp(beta (s - base_n))) of inner
/// products s. Multi-similarity (Wang et al., 2019) has f = 1 / alpha, 1 / beta and one base;
/// proxy-anchor (Kim et al., 2020), where anchors are proxies, has alpha = beta, bases delta and
/// -delta, and f the reciprocals of the numbers of proxies with positives and of all proxies.
struct SoftplusForm {
    Side positive, negative;
    double factor_positive, factor_negative;

    explicit SoftplusForm(const SoftplusSettings &s)
        : positive{-s.alpha, s.alpha * s.base_positive},
          negative{s.beta, -s.beta * s.base_negative}, factor_positive(s.f_positive),
          factor_negative(s.f_negative) {}

    TwoSidedValue operator()(const TwoSides &sides) const {
        TwoSidedValue result;
        result.skipped = sides.positives == 0 && sides.negatives == 0;
        const auto [p, by_p] = softplus(sides.positive);
        const auto [n, by_n] = softplus(sides.negative);
        result.value = factor_positive * p + factor_negative * n;
        result.by_positive = factor_positive * by_p;
        result.by_negative = factor_negative * by_n;
        return result;
    }
};

/// Supervised contrastive (Khosla et al., 2020), of inner products s over a temperature:
/// log sum_all exp(s / t) - mean_positive(s / t).
struct SupConForm {
    Side positive, negative;

    explicit SupConForm(double temperature)
        : positive{1 / temperature, 0.0}, negative{1 / temperature, 0.0} {}

    TwoSidedValue operator()(const TwoSides &sides) const {
        TwoSidedValue result;
        result.skipped = sides.positives == 0;
        if (result.skipped)
            return result;
        const auto [above, share] = softplus(sides.negative - sides.positive);
        result.value = sides.positive + above - sides.mean_positive;
        result.by_positive = 1 - share;
        result.by_negative = share;
        result.by_mean_positive = -1;
        return result;
    }
};

/// Generalised lifted structure (Hermans et al., 2017), of distances d:
/// [log sum_p exp(d - positive margin) + log sum_n exp(negative margin - d)]_+.
struct LiftedForm {
    Side positive, negative;

    LiftedForm(double positive_margin, double negative_margin)
        : positive{1.0, -positive_margin}, negative{-1.0, negative_margin} {}

    TwoSidedValue operator()(const TwoSides &sides) const {
        TwoSidedValue result;
        result.skipped = sides.positives == 0 || sides.negatives == 0;
        const double sum = sides.positive + sides.negative;
        if (result.skipped || !(sum > 0))
            return result;
        result.value = sum;
        result.by_positive = result.by_negative = 1;
        return result;
    }
};

METRICFAST_NAMESPACE_END
