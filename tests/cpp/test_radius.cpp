#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_radius {

using namespace metricfast;

namespace {

template <class T>
void lists_match(const RowMatrix<T> &x, const RowMatrix<T> &y, double radius, Codes exclude,
                 bool sorted) {
    const Points database(seen(y));
    const auto lists =
        radius_neighbors<T>(Points(seen(x)), database, {radius, exclude, sorted}, {2, {}, {}});
    CHECK(static_cast<Index>(lists.row_starts.size()) == x.rows() + 1);
    for (Index i = 0; i < x.rows(); ++i) {
        const RowMatrix<double> query = x.row(i).template cast<double>();
        std::vector<Neighbor> expected;
        for (Index j = 0; j < y.rows(); ++j) {
            const double d = std::sqrt(exact_squared_distance(query.data(), database, j, 1.0));
            if (d <= radius && (exclude == nullptr || exclude[i] != j))
                expected.push_back({d, j});
        }
        if (sorted)
            std::sort(expected.begin(), expected.end());
        const auto first = lists.row_starts[i];
        CHECK(lists.row_starts[i + 1] - first == static_cast<std::int64_t>(expected.size()));
        for (std::size_t r = 0; r < expected.size(); ++r) {
            CHECK(lists.indices[first + r] == expected[r].index);
            CHECK_NEAR(lists.distances[first + r], expected[r].distance, 1e-6);
        }
    }
}

} // namespace

TEST(random_points_and_grids) {
    for (const double radius : {0.0, 1.0, 2.0, 100.0})
        for (const bool sorted : {false, true}) {
            lists_match<float>(random_points<float>(60, 4), random_points<float>(300, 4), radius,
                               nullptr, sorted);
            lists_match<double>(random_points<double>(60, 3).array().round(),
                                random_points<double>(300, 3).array().round(), radius, nullptr,
                                sorted);
        }
}

TEST(clusters_far_from_the_centre) {
    RowMatrix<float> y = random_points<float>(400, 3);
    y.bottomRows(150).array() += 1e6f;
    lists_match<float>(RowMatrix<float>(y.bottomRows(200)), y, 0.5, nullptr, true);
}

TEST(excluded_rows_are_left_out) {
    const RowMatrix<double> y = random_points<double>(50, 2).array().round();
    std::vector<std::int64_t> exclude(50);
    for (Index i = 0; i < 50; ++i)
        exclude[i] = i % 3 == 0 ? -1 : i;
    lists_match<double>(y, y, 1.0, exclude, false);
}

TEST(bad_arguments_are_named) {
    const RowMatrix<double> y = random_points<double>(5, 2), z = random_points<double>(5, 3);
    const Points points(seen(y)), wide(seen(z));
    CHECK_THROWS(std::invalid_argument, "differ in width",
                 radius_neighbors<double>(points, wide, {}));
    const std::vector<std::int64_t> exclude(4, -1);
    CHECK_THROWS(std::invalid_argument, "exclude",
                 radius_neighbors<double>(points, points, {1.0, exclude}));
}

TEST(pairs_within_the_radius_count) {
    // Bounds in floats find more candidates than there are pairs.
    RowMatrix<float> y = random_points<float>(400, 3);
    y.bottomRows(150).array() += 1e4f;
    const Points points(seen(y));
    for (const double radius : {0.5, 2.0, 1e9}) {
        const auto all = radius_neighbors<float>(points, points, {radius}, {2, {}, {}});
        const auto size = static_cast<std::int64_t>(all.indices.size());
        CHECK(all.pairs == size && size > 400);
        RadiusSettings settings{radius};
        settings.most = size;
        const auto same = radius_neighbors<float>(points, points, settings);
        CHECK(same.pairs == size && same.indices == all.indices);
        settings.most = size - 1;
        const auto none = radius_neighbors<float>(points, points, settings);
        CHECK(none.pairs == size && none.indices.empty() && none.row_starts.back() == 0);
    }
}

} // namespace test_radius
