/// Sums of hinges of triplets.
#pragma once

#include <numeric>

#include "metricfast/embeddings/linear.hpp"
#include "metricfast/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// sum_t v_t [1 + |L (x_a - x_b)|^2 - |L (x_a - x_c)|^2]_+ of triplets t = (a, b, c).
/// \param triplets n_triplets x 3 rows of `x`; those of the same (a, b) share work where they
///   follow each other.
/// \param weights v, or null for ones. The result does not depend on the number of threads.
inline double triplet_hinges(const Points &x, const RowMatrix<double> &L,
                             const std::int64_t *triplets, Index n_triplets, const double *weights,
                             const Control &control = {}) {
    for (Index i = 0; i < 3 * n_triplets; ++i)
        require(triplets[i] >= 0 && triplets[i] < x.rows(),
                "triplet_hinges: triplets holds an index outside the points");
    if (n_triplets == 0)
        return 0;
    Eigen::RowVectorXd centre(x.cols()); // any point: less is lost where the origin is far
    x.read_row(0, centre.data());
    const auto z = embed(x, L, centre, Eigen::RowVectorXd::Zero(L.rows()), control);
    constexpr Index size = 2048;
    std::vector<double> sums(static_cast<std::size_t>((n_triplets + size - 1) / size), 0.0);
    const auto block = [&](Index b, Worker &) {
        const auto distance = [&](std::int64_t i, std::int64_t j) {
            return squared_distance(&z(i, 0), &z(j, 0), z.cols());
        };
        double near = 0, sum = 0;
        for (Index i = b * size; i < std::min(n_triplets, (b + 1) * size); ++i) {
            const std::int64_t *t = triplets + 3 * i;
            if (i == b * size || t[0] != t[-3] || t[1] != t[-2])
                near = distance(t[0], t[1]);
            const double slack = 1 + near - distance(t[0], t[2]);
            if (!(slack <= 0)) // what is no number stays none
                sum += weights != nullptr ? weights[i] * slack : slack;
        }
        sums[b] = sum;
    };
    parallel_blocks(static_cast<Index>(sums.size()), control, block);
    return std::accumulate(sums.begin(), sums.end(), 0.0);
}

METRICFAST_NAMESPACE_END
