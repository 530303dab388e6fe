#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_distance {

using namespace metricfast;

template <class T> void all_pairs_match(Index n, Index m, Index p, int threads) {
    const RowMatrix<T> x = random_points<T>(n, p), y = random_points<T>(m, p).array() + T(0.5);
    RowMatrix<T> out = RowMatrix<T>::Constant(n, m + 3, T(-7));
    pairwise_distances<T>(Points(seen(x)), Points(seen(y)), true, View<T>(out.data(), n, m, m + 3),
                          {threads, {}, {}});
    for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < m; ++j)
            CHECK_NEAR(out(i, j), squared_distance_of(x, i, y, j), 1e-4);
        for (Index j = m; j < m + 3; ++j)
            CHECK(out(i, j) == T(-7));
    }
}

TEST(all_pairs) {
    for (const Index n : {1, 5, 12, 13, 130})
        for (const Index m : {1, 31, 33, 300}) {
            all_pairs_match<float>(n, m, 3, 2);
            all_pairs_match<double>(n, m, 17, 1);
        }
}

template <class T> void every_coordinate_counts(Index rows, Index cols) {
    RowMatrix<T> x = random_points<T>(rows, cols);
    const auto magnitude = [&] { return Extremes(Points(seen(x))).magnitude(); };
    CHECK(magnitude() == static_cast<double>(x.cwiseAbs().maxCoeff()));
    for (Index c = 0; c < cols; ++c) {
        T &value = x(7 * c % rows, c);
        const T kept = value;
        value = c % 2 == 0 ? T(50) : T(-50);
        CHECK(magnitude() == 50);
        constexpr T infinity = std::numeric_limits<T>::infinity();
        for (const T bad : {infinity, -infinity, std::numeric_limits<T>::quiet_NaN()}) {
            value = bad;
            CHECK_THROWS(std::invalid_argument, "must be finite", magnitude());
        }
        value = kept;
    }
}

TEST(extremes) {
    for (const Index rows : {1, 3, 400})
        for (const Index cols : {1, 7, 16, 19, 64, 83, 131}) {
            every_coordinate_counts<float>(rows, cols);
            every_coordinate_counts<double>(rows, cols);
        }
}

TEST(equal_copies_of_a_map_are_one_map) {
    const RowMatrix<double> x = random_points<double>(20, 4).array() + 1e9,
                            L = random_points<double>(3, 4), copy = L;
    const Points points(seen(x));
    std::vector<std::int64_t> pairs;
    for (std::int64_t i = 0; i < 100; ++i) {
        pairs.push_back(i % 20);
        pairs.push_back(7 * i % 20);
    }
    for (const Index count : {5, 100}) { // by differences, and embedded
        std::vector<double> one(static_cast<std::size_t>(count)), two(one);
        const PairList some{{pairs.data(), 2 * count}, count};
        paired_distances<double>(points, points, some, L, L, false, one);
        paired_distances<double>(points, points, some, L, copy, false, two);
        CHECK(one == two);
    }
    const EmbeddedPair one(points, points, L, L, {}), two(points, points, L, copy, {});
    CHECK(one.queries == two.queries && one.database == two.database);
}

TEST(bad_arguments_are_named) {
    const RowMatrix<double> x = random_points<double>(6, 4), narrow = random_points<double>(6, 3);
    RowMatrix<double> out(6, 6), small(6, 5);
    const Points a(seen(x)), b(seen(narrow));
    CHECK_THROWS(std::invalid_argument, "differ in width",
                 pairwise_distances<double>(a, b, true, view(out)));
    CHECK_THROWS(std::invalid_argument, "out must be",
                 pairwise_distances<double>(a, a, true, view(small)));
    const std::vector<std::int64_t> outside{0, 6};
    CHECK_THROWS(std::invalid_argument, "outside",
                 paired_distances<double>(a, a, {outside, 1}, true, {out.data(), 1}));
}

TEST(distances_that_overflow_are_infinite) {
    const RowMatrix<double> x{{1e200, 0}, {0, 1e200}}, L = RowMatrix<double>::Identity(2, 2),
                                                       V = 2 * L;
    const RowMatrix<double> huge = 1e200 * L;
    const std::vector<std::int64_t> pairs{0, 1, 1, 0, 0, 1, 1, 0, 0, 1};
    const Points points(seen(x));
    for (const Index count : {1, 5}) {
        const PairList some{{pairs.data(), 2 * count}, count};
        std::vector<double> out(static_cast<std::size_t>(count));
        const auto all_infinite = [&] {
            return std::all_of(out.begin(), out.end(), [](double d) { return d > 1e308; });
        };
        paired_distances<double>(points, points, some, true, out);
        CHECK(all_infinite());
        paired_distances<double>(points, points, some, L, L, true, out);
        CHECK(all_infinite());
        paired_distances<double>(points, points, some, L, V, true, out);
        CHECK(all_infinite());
        CHECK_THROWS(std::invalid_argument, "too large",
                     paired_distances<double>(points, points, some, huge, V, true, out));
    }
    RowMatrix<double> square(2, 2);
    pairwise_distances<double>(points, points, true, view(square));
    CHECK(std::isinf(square(0, 1)) && square(0, 0) == 0);
}

} // namespace test_distance
