/// Sums and scatter matrices of groups of points and of neighbours.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_scatter {

using namespace metricfast;

namespace {

constexpr Index n = 60, d = 5;
using Ids = std::vector<std::int64_t>;

template <class T> void check_groups_of_points(Index rows, Index cols) {
    const RowMatrix<T> x = random_points<T>(rows, cols);
    const RowMatrix<double> means = random_points<double>(3, cols);
    const RowMatrix<double> origin = random_points<double>(1, cols);
    Ids group(rows);
    std::vector<double> weights(rows), scale(cols);
    for (Index i = 0; i < rows; ++i) {
        group[i] = i % 3;
        weights[i] = static_cast<double>(i % 4);
    }
    for (Index k = 0; k < cols; ++k)
        scale[k] = 1 + 0.5 * static_cast<double>(k);
    const Eigen::Map<Eigen::RowVectorXd> s(scale.data(), cols);
    RowMatrix<double> scaled = RowMatrix<double>::Zero(cols, cols), plain = scaled;
    RowMatrix<double> sums = RowMatrix<double>::Zero(3, cols), found_sums(3, cols);
    double largest = 0;
    for (Index i = 0; i < rows; ++i) {
        const Eigen::RowVectorXd v = x.row(i).template cast<double>();
        const Eigen::RowVectorXd offset = v - origin.row(0);
        largest = std::max(largest, offset.cwiseAbs().maxCoeff());
        sums.row(i % 3) += weights[i] * offset;
        const Eigen::RowVectorXd from_mean = offset - means.row(i % 3);
        const Eigen::RowVectorXd in_units = (v - means.row(i % 3)).cwiseQuotient(s);
        plain += weights[i] * from_mean.transpose() * from_mean;
        scaled += weights[i] * in_units.transpose() * in_units;
    }
    const Points points(seen(x));
    const Span<const double> from(origin.data(), cols);
    Control one, three;
    one.threads = 1;
    three.threads = 3;
    check_same(group_scatter(points, weights, group, seen(means), scale), scaled, 1e-11);
    const auto found = group_scatter(points, weights, group, seen(means), nullptr, one, from);
    check_same(found, plain, 1e-11);
    const auto again = group_scatter(points, weights, group, seen(means), nullptr, three, from);
    CHECK((found.array() == again.array()).all() && found == found.transpose());
    CHECK(group_sums(points, weights, group, view(found_sums), from) == largest);
    check_same(found_sums, sums, 1e-11);
}

} // namespace

TEST(sums_and_scatter_of_groups) {
    // Of fewer columns than a register has, of whole panels and beyond; of several blocks and
    // lanes.
    for (const Index cols : {1, 3, 4, 16, 17, 40})
        for (const Index rows : {1, 7, 300, 5000})
            check_groups_of_points<double>(rows, cols);
    check_groups_of_points<float>(700, 33);
}

TEST(sums_of_groups_refuse_what_they_cannot_use) {
    RowMatrix<double> x = random_points<double>(n, d);
    const RowMatrix<double> means = random_points<double>(3, d);
    const Ids group(n, 0);
    const std::vector<double> weights(n, 1.0), few(d - 1, 1.0);
    const Points points(seen(x));
    RowMatrix<double> narrow = random_points<double>(3, d - 1), sums(3, d);
    CHECK_THROWS(std::invalid_argument, "differ in width",
                 group_scatter(points, weights, group, seen(narrow), nullptr));
    CHECK_THROWS(std::invalid_argument, "differ in width",
                 group_sums(points, weights, group, view(narrow)));
    CHECK_THROWS(std::invalid_argument, "one scale per coordinate",
                 group_scatter(points, weights, group, seen(means), few));
    CHECK_THROWS(std::invalid_argument, "the origin must have",
                 group_sums(points, weights, group, view(sums), few));
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
        x(n - 1, 1) = bad;
        CHECK_THROWS(std::invalid_argument, "must be finite",
                     group_scatter(points, weights, group, seen(means), nullptr));
        CHECK_THROWS(std::invalid_argument, "must be finite",
                     group_sums(points, weights, group, view(sums)));
    }
}

} // namespace test_scatter
