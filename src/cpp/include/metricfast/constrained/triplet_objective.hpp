/// The hinge loss of triplets under a learned metric, and the scale of the metric that minimises
/// it.
#pragma once

#include <numeric>

#include "metricfast/constrained/types.hpp"
#include "metricfast/embeddings/linear.hpp"
#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
/// The function f(s) = mean_t [1 + s e_t]_+ + s penalty with weights v. It is convex and piecewise
/// linear.
struct HingesOfScale {
    struct Value {
        double scale, value, slope;
    };

    std::vector<double> e, v; ///< v: empty for ones
    double total = 0;         ///< sum of v
    double penalty = 0;

    Value operator()(double scale) const {
        constexpr Index W = Vec<double>::width;
        const auto zero = Vec<double>::broadcast(0), one = Vec<double>::broadcast(1);
        const auto s = Vec<double>::broadcast(scale);
        const Index n = static_cast<Index>(e.size());
        auto sums = zero, idle = zero;
        Index i = 0;
        for (; i + W <= n; i += W) {
            const auto hinge = max(fma(s, Vec<double>::load(&e[i]), one), zero);
            const auto weight = v.empty() ? one : Vec<double>::load(&v[i]);
            sums = fma(weight, hinge, sums);
            idle = idle + where_equal(hinge, zero, weight);
        }
        double sum = horizontal_sum(sums), active = total - horizontal_sum(idle);
        for (; i < n; ++i) {
            const double hinge = std::max(1 + scale * e[i], 0.0), weight = v.empty() ? 1 : v[i];
            sum += weight * hinge;
            active -= hinge == 0 ? weight : 0;
        }
        return {scale, sum / total + scale * penalty, (sum - active) / (total * scale) + penalty};
    }

    /// Returns the minimum of f with relative error 1e-6 if it is below f(0), else the value at 1.
    /// \param slope the slope of f at 0.
    Value minimum(double slope) const {
        if (!std::isfinite(slope)) // distances overflow
            return {1, slope, slope};
        const Value whole = (*this)(1);
        if (slope >= 0 || !std::isfinite(whole.value))
            return whole;
        // The slope is negative at low, and eventually not at high.
        Value low{0, 1, slope}, high = whole;
        for (int i = 0; i < 64 && high.slope < 0; ++i) {
            low = high;
            high = (*this)(2 * high.scale);
        }
        for (int i = 0; i < 50 && high.slope >= 0; ++i) {
            // The intersection of the tangents, which lie below f.
            const double step = (high.value - low.value - high.slope * (high.scale - low.scale)) /
                                (low.slope - high.slope);
            if (std::min(low.value, high.value) * (1 - 1e-6) <= low.value + low.slope * step ||
                !(step > 0))
                break;
            const Value next = (*this)(low.scale + step);
            (next.slope < 0 ? low : high) = next;
        }
        const Value &best = low.value < high.value ? low : high;
        return best.scale > 0 ? best : whole;
    }
};
} // namespace detail

namespace detail {
/// Computes |L (x_a - x_b)|^2 - |L (x_a - x_c)|^2 for each triplet. Maps all points, which is
/// efficient if each point occurs in many triplets.
inline void excesses_of_points(const Points &x, const RowMatrix<double> &L,
                               const std::int64_t *triplets, std::vector<double> &e,
                               const Control &control) {
    // Any origin is valid. An origin amid the points loses the fewest digits.
    const auto z = embed(x, L, middle(x), control);
    const auto distance = [&](std::int64_t i, std::int64_t j) {
        return squared_distance(&z(i, 0), &z(j, 0), z.cols());
    };
    constexpr Index size = 2048;
    const Index n = static_cast<Index>(e.size());
    parallel_blocks((n + size - 1) / size, control, [&](Index b, Worker &) {
        double near = 0;
        for (Index i = b * size; i < std::min(n, (b + 1) * size); ++i) {
            const std::int64_t *t = triplets + 3 * i;
            if (i == b * size || t[0] != t[-3] || t[1] != t[-2])
                near = distance(t[0], t[1]);
            e[i] = near - distance(t[0], t[2]);
        }
    });
}

/// Computes the same as L (x_c - x_b) . L (2 x_a - x_b - x_c), which maps two vectors per triplet.
inline void excesses_of_triplets(const Points &x, const RowMatrix<double> &L,
                                 const std::int64_t *triplets, std::vector<double> &e,
                                 const Control &control) {
    constexpr Index size = 256;
    const Index n = static_cast<Index>(e.size());
    parallel_blocks((n + size - 1) / size, control, [&](Index b, Worker &) {
        const Index first = b * size, count = std::min(size, n - first);
        RowMatrix<double> sides(2 * count, x.cols()), z(2 * count, L.rows());
        x.visit([&](auto points) {
            for (Index i = 0; i < count; ++i) {
                const std::int64_t *t = triplets + 3 * (first + i);
                const auto *xa = points.row(t[0]), *xb = points.row(t[1]), *xc = points.row(t[2]);
                for (Index k = 0; k < x.cols(); ++k) {
                    const double near = double(xa[k]) - double(xb[k]),
                                 far = double(xa[k]) - double(xc[k]);
                    sides(i, k) = near - far;
                    sides(count + i, k) = near + far;
                }
            }
        });
        multiply_nt<double>(view(sides), view(L), view(z));
        for (Index i = 0; i < count; ++i)
            e[first + i] = z.row(i).dot(z.row(count + i));
    });
}
} // namespace detail

/// \param triplets (n_triplets x 3) rows of `x`; consecutive triplets of the same (a, b) share
///   work. \param weights one per triplet, or null for ones. The result does not depend on the
///   number of threads.
inline TripletObjective triplet_objective(const Points &x, View<const double> map, Codes triplets,
                                          Weights weights, double penalty,
                                          const Control &control = {}) {
    const RowMatrix<double> L = eigen(map);
    const Index n_triplets = count_triplets(triplets, x.rows(), "triplet_objective");
    require(n_triplets > 0, "triplet_objective: there are no triplets");
    require(L.cols() == x.cols(), "triplet_objective: points and map differ in width");
    require_finite(x, "triplet_objective: points must be finite");
    require_each(weights, n_triplets, "triplet_objective: there must be one weight per triplet");
    require_weights(weights, "triplet_objective: weights must be finite and not negative");
    require(penalty >= 0, "triplet_objective: the penalty must not be negative");
    detail::HingesOfScale hinges;
    std::vector<double> &e = hinges.e;
    e.resize(static_cast<std::size_t>(n_triplets));
    (x.rows() < n_triplets ? detail::excesses_of_points
                           : detail::excesses_of_triplets)(x, L, triplets.data(), e, control);
    hinges.total = static_cast<double>(n_triplets);
    double sum = 0;
    if (weights == nullptr)
        sum = std::accumulate(e.begin(), e.end(), 0.0);
    else {
        hinges.v.assign(weights.begin(), weights.end());
        hinges.total = std::accumulate(hinges.v.begin(), hinges.v.end(), 0.0);
        sum = std::inner_product(e.begin(), e.end(), hinges.v.begin(), 0.0);
    }
    hinges.penalty = penalty;
    const auto best = hinges.minimum(sum / hinges.total + penalty);
    return {best.value, best.scale};
}

METRICFAST_NAMESPACE_END
