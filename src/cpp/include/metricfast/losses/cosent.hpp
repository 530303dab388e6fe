/// CoSENT (Su, 2022): scored pairs in the right order.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "metricfast/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// log(1 + sum over a, b with score_a > score_b of exp(scale (s_b - s_a))) of pairs with
/// similarities s, in O(n log n).
/// \param weights out: the derivatives by s. \param terms out, may be null: pairs of pairs in
/// order. \param rounding by which adjacent scores may differ and be equal.
inline double cosent(const double *similarities, const double *scores, Index n, double scale,
                     double *weights, std::int64_t *terms = nullptr, double rounding = 0) {
    constexpr double none = -std::numeric_limits<double>::infinity();
    const auto log_add = [](double a, double b) {
        const double most = std::max(a, b);
        return std::isfinite(most) ? most + std::log1p(std::exp(std::min(a, b) - most)) : most;
    };
    std::vector<Index> order(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i)
        order[i] = i;
    std::sort(order.begin(), order.end(), [&](Index a, Index b) {
        return scores[a] != scores[b] ? scores[a] < scores[b] : a < b;
    });
    std::vector<Index> rank(static_cast<std::size_t>(n), 0);
    for (Index r = 1; r < n; ++r)
        rank[order[r]] =
            rank[order[r - 1]] + (scores[order[r]] - scores[order[r - 1]] > rounding ? 1 : 0);
    // For each a, ascending: the log-sum of exp(scale s_b) over all lower scores.
    const auto sweep = [&](double sign, std::vector<double> &sums) {
        double so_far = none;
        for (Index begin = 0, end; begin < n; begin = end) {
            for (end = begin; end < n && rank[order[end]] == rank[order[begin]];)
                ++end;
            for (Index r = begin; r < end; ++r)
                sums[order[r]] = so_far;
            for (Index r = begin; r < end; ++r)
                so_far = log_add(so_far, sign * scale * similarities[order[r]]);
        }
    };
    std::vector<double> lower(static_cast<std::size_t>(n)), higher(lower);
    sweep(1, lower);
    if (terms != nullptr) {
        *terms = 0;
        for (Index begin = 0, end; begin < n; begin = end) {
            for (end = begin; end < n && rank[order[end]] == rank[order[begin]];)
                ++end;
            *terms += static_cast<std::int64_t>(end - begin) * begin;
        }
    }
    std::reverse(order.begin(), order.end());
    sweep(-1, higher);
    double value = 0; // log(1 + ...)
    for (Index i = 0; i < n; ++i)
        value = log_add(value, lower[i] - scale * similarities[i]);
    for (Index i = 0; i < n; ++i) {
        const double x = scale * similarities[i];
        weights[i] = scale * (std::exp(higher[i] + x - value) - std::exp(lower[i] - x - value));
    }
    return value;
}

METRICFAST_NAMESPACE_END
