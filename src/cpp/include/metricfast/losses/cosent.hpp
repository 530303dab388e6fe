/// CoSENT (Su, 2022): pairs ordered by their scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "metricfast/core/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Returns log(1 + sum over a, b with score_a > score_b of w_a w_b exp(scale (s_b - s_a))) for
/// pairs with similarities s, in O(n log n) time and 4 n bytes.
/// \param n below 2^31.
/// \param weights written: the derivatives by s. May be the same memory as `scores`.
/// \param terms written unless null: the number of (a, b) with score_a > score_b.
/// \param scores if any is NaN, so are the value and all derivatives.
/// \param rounding adjacent scores that differ by at most this are equal; from 0 on.
/// \param log_weights the logarithms of w, -infinity for 0. Null for ones.
inline double cosent(const double *similarities, const double *scores, Index n, double scale,
                     double *weights, std::int64_t *terms = nullptr, double rounding = 0,
                     const double *log_weights = nullptr) {
    constexpr double none = -std::numeric_limits<double>::infinity();
    constexpr std::uint32_t mark = std::uint32_t(1) << 31; // the first pair of its score
    require(n < static_cast<Index>(mark), "cosent: more than 2^31 pairs");
    require(rounding >= 0, "cosent: rounding must not be negative");
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (std::any_of(scores, scores + n, [](double score) { return std::isnan(score); })) {
        std::fill(weights, weights + n, nan);
        if (terms != nullptr)
            *terms = 0;
        return nan;
    }
    const auto log_add = [](double a, double b) {
        const double most = std::max(a, b);
        return std::isfinite(most) ? most + std::log1p(std::exp(std::min(a, b) - most)) : most;
    };
    std::vector<std::uint32_t> order(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i)
        order[i] = static_cast<std::uint32_t>(i);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return scores[a] != scores[b] ? scores[a] < scores[b] : a < b;
    });
    double last = none;
    for (Index r = 0; r < n; ++r) {
        const double score = scores[order[r]];
        order[r] |= r == 0 || score - last > rounding ? mark : 0;
        last = score;
    }
    const auto begins = [&](Index r) { return (order[r] & mark) != 0; };
    const auto pair = [&](Index r) { return static_cast<Index>(order[r] & ~mark); };
    const auto log_weight = [&](Index i) { return log_weights == nullptr ? 0 : log_weights[i]; };
    // From here on, scores are not needed, so `weights` may overwrite them. It holds the log-sum of
    // exp(scale s_b) over all lower scores.
    double so_far = none, value = 0; // log(1 + ...)
    std::int64_t ordered = 0;
    for (Index begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && !begins(end);)
            ++end;
        for (Index r = begin; r < end; ++r) {
            weights[pair(r)] = so_far;
            const Index i = pair(r);
            value = log_add(value, so_far - scale * similarities[i] + log_weight(i));
        }
        ordered += static_cast<std::int64_t>(end - begin) * begin;
        for (Index r = begin; r < end; ++r)
            so_far = log_add(so_far, scale * similarities[pair(r)] + log_weight(pair(r)));
    }
    if (terms != nullptr)
        *terms = ordered;
    // The log-sum of exp(-scale s_a) over all higher scores.
    so_far = none;
    for (Index end = n, begin; end > 0; end = begin) {
        for (begin = end - 1; !begins(begin);)
            --begin;
        for (Index r = begin; r < end; ++r) {
            const Index i = pair(r);
            const double x = scale * similarities[i], at = log_weight(i) - value;
            weights[i] = scale * (std::exp(so_far + x + at) - std::exp(weights[i] - x + at));
        }
        for (Index r = begin; r < end; ++r)
            so_far = log_add(so_far, -scale * similarities[pair(r)] + log_weight(pair(r)));
    }
    return value;
}

METRICFAST_NAMESPACE_END
