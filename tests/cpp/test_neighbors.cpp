#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

using namespace metricfast;

namespace {

template <class T>
std::vector<Neighbor> sorted_neighbors(const RowMatrix<T> &x, Index i, const RowMatrix<T> &y) {
    std::vector<Neighbor> all;
    const RowMatrix<double> exact = x.row(i).template cast<double>();
    const Points database(seen(y));
    for (Index j = 0; j < y.rows(); ++j)
        all.push_back({exact_squared_distance(exact.data(), database, j, 1.0), j});
    std::sort(all.begin(), all.end());
    return all;
}

template <class T>
void neighbors_match(const RowMatrix<T> &x, const RowMatrix<T> &y, Index k, int threads) {
    RowMatrix<T> distances(x.rows(), k);
    RowMatrix<std::int64_t> indices(x.rows(), k);
    kneighbors<T>(Points(seen(x)), Points(seen(y)), k, nullptr, true, view(distances),
                  view(indices), {threads, {}, {}});
    for (Index i = 0; i < x.rows(); ++i) {
        const auto expected = sorted_neighbors(x, i, y);
        for (Index r = 0; r < k; ++r) {
            CHECK(indices(i, r) == expected[r].index);
            CHECK_NEAR(distances(i, r), expected[r].distance, 1e-6);
        }
    }
}

} // namespace

TEST(random_points_and_grids) {
    for (const Index m : {9, 40, 500}) {
        neighbors_match<float>(random_points<float>(50, 4), random_points<float>(m, 4), 9, 2);
        neighbors_match<double>(random_points<double>(50, 4).array().round(),
                                random_points<double>(m, 4).array().round(), 7, 2);
    }
}

TEST(more_copies_than_lists_hold) {
    neighbors_match<float>(random_points<float>(40, 2).array().round(),
                           random_points<float>(3000, 2).array().round(), 7, 2);
    neighbors_match<double>(random_points<double>(40, 1).array().round(),
                            random_points<double>(3000, 1).array().round(), 150, 2);
}

TEST(ties_beyond_every_screen) {
    const RowMatrix<double> x = RowMatrix<double>::Constant(3, 2, 1.0);
    neighbors_match<double>(x, RowMatrix<double>(x.replicate(300, 1)), 5, 2);
}

TEST(per_class_pads) {
    const RowMatrix<double> y = random_points<double>(30, 2);
    std::vector<std::int64_t> labels(30, 0);
    labels[4] = labels[20] = 2;
    std::vector<double> distances(30 * 3 * 3);
    std::vector<std::int64_t> indices(30 * 3 * 3);
    const Points points(seen(y));
    kneighbors_per_class<double>(points, points, labels, 3, 3, nullptr, false, distances.data(),
                                 indices.data());
    for (Index i = 0; i < 30; ++i) {
        const std::int64_t *row = &indices[i * 9];
        CHECK(row[0] == (labels[i] == 0 ? i : row[0]) && row[2] >= 0);
        CHECK(row[3] == -1 && row[5] == -1 && std::isinf(distances[i * 9 + 3]));
        CHECK(row[6] + row[7] == 24 && row[8] == -1);
    }
}

TEST(bad_arguments_are_named) {
    const RowMatrix<double> y = random_points<double>(5, 2);
    const Points points(seen(y));
    RowMatrix<double> distances(5, 6);
    RowMatrix<std::int64_t> indices(5, 6);
    CHECK_THROWS(
        std::invalid_argument, "exceeds the number",
        kneighbors<double>(points, points, 6, nullptr, false, view(distances), view(indices)));
    CHECK_THROWS(
        std::invalid_argument, "at least 1",
        kneighbors<double>(points, points, 0, nullptr, false, view(distances), view(indices)));
    const std::vector<std::int64_t> labels{0, 1, 2, 0, 1};
    CHECK_THROWS(std::invalid_argument, "label out of range",
                 kneighbors_per_class<double>(points, points, labels, 2, 1, nullptr, false,
                                              distances.data(), indices.data()));
}
