#include <thread>

#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_neighbors {

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

TEST(every_route_is_exact) {
    for (const Index depth : {2, 5, 16, 70})
        for (const Index count : {1, 4, 100}) {
            const RowMatrix<float> x = random_points<float>(4000, depth), q = x.topRows(count);
            const Database database(Points(seen(x)), {}, {2, {}, {}});
            CHECK((database.route() == SearchRoute::tree) == (depth <= 5));
            RowMatrix<float> distances(count, 8);
            RowMatrix<std::int64_t> indices(count, 8);
            DatabaseMemory memory;
            database.search(Points(seen(q)), 8, nullptr, false, view(distances), view(indices),
                            memory, {2, {}, {}});
            for (Index i = 0; i < count; ++i) {
                const auto expected = sorted_neighbors(q, i, x);
                for (Index r = 0; r < 8; ++r)
                    CHECK(indices(i, r) == expected[r].index);
            }
        }
}

/// Each point is found as long as a query looks a hair farther than it is, and not much nearer.
void check_bounds(const RowMatrix<double> &x, const RowMatrix<double> &q, const Frame &frame,
                  const QuantizedDatabase &database) {
    const Index n = x.rows(), m = q.rows();
    const Points queries(seen(q));
    const auto ids = identity_order(m);
    Index needless = 0, seen = 0;
    for (Index p = 0; p < database.positions(); ++p) {
        const std::int64_t j = database.id(p);
        if (j < 0)
            continue;
        ++seen;
        const Index panel = p / 32;
        for (const double share : {1 + 1e-9, 0.5}) {
            QuantizedQueries quantized;
            quantized.begin(database, queries, frame, ids.data(), 0, m);
            std::vector<double> d(static_cast<std::size_t>(m));
            for (Index i = 0; i < m; ++i) {
                d[i] = (q.row(i) - x.row(j)).squaredNorm() * frame.scale * frame.scale;
                CHECK(quantized.cell_distance(i, database.cell_of_panel(panel)) <=
                      d[i] * (1 + 1e-9));
                quantized.lower_limit(i, share * d[i]);
            }
            std::vector<char> found(static_cast<std::size_t>(m), 0);
            if (quantized.enter_cell(database.cell_of_panel(panel)))
                quantized.sweep(database, panel, panel + 1, [&](Index i, Index at, int sum) {
                    if (at == p) {
                        found[i] = 1;
                        CHECK(quantized.lower(i, panel, sum) <= d[i]);
                    }
                });
            for (Index i = 0; i < m; ++i) {
                CHECK(share < 1 || found[i]);
                needless += share < 1 && found[i] ? 1 : 0;
            }
        }
    }
    CHECK(seen == n && needless < n * m / 5);
}

TEST(bounds_of_integers_hold) {
    if (!has_int8())
        return;
    RowMatrix<double> x = random_points<double>(200, 19);
    x.row(3) *= 1e3; // which the step does not reach
    const RowMatrix<double> q = random_points<double>(5, 19);
    const Points points(seen(x));
    const Space space(points);
    const Frame frame = frame_of(points, Points(seen(q)));
    check_bounds(x, q, frame, {space, frame, identity_order(200), {0}, {1, {}, {}}});
}

TEST(bounds_of_integers_hold_in_cells) {
    if (!has_int8())
        return;
    RowMatrix<double> x = 0.05 * random_points<double>(300, 21);
    const RowMatrix<double> centres = 3 * random_points<double>(4, 21);
    Cells cells;
    cells.starts = {0, 100, 100, 299}; // the second has no point, the last one
    cells.order = identity_order(300);
    cells.centroids = centres;
    for (Index i = 0; i < 300; ++i)
        x.row(i) += centres.row(i < 100 ? 0 : i < 299 ? 2 : 3);
    x.row(5) += centres.row(1); // in a cell that it is far from
    RowMatrix<double> q = x.topRows(6) + 0.05 * random_points<double>(6, 21);
    q.row(0) = centres.row(0);
    const Points points(seen(x));
    const Frame frame{std::vector<double>(21, 0.0), 1, 1};
    const QuantizedDatabase database(Space(points), frame, cells, {1, {}, {}});
    check_bounds(x, q, frame, database);
    check_bounds(x, q, frame, {Space(points), database.parts()});
}

TEST(clusters_are_searched_by_cells) {
    const Index n = 6000, d = 24;
    RowMatrix<double> x = random_points<double>(n, d);
    const RowMatrix<double> centres = 20 * random_points<double>(13, d);
    for (Index i = 0; i < n; ++i)
        x.row(i) = centres.row(i % 13) + (i % 7 == 0 ? 0 : 1e-3) * x.row(i); // some are equal
    x.row(1) *= 1e6;
    const RowMatrix<double> q = x.bottomRows(50) + 1e-4 * random_points<double>(50, d);
    const Database database{Points(seen(x))};
    CHECK(!has_int8() || database.cells() > 8);
    RowMatrix<double> distances(50, 7), expected(50, 7);
    RowMatrix<std::int64_t> indices(50, 7), rows(50, 7);
    DatabaseMemory memory;
    database.search<double>(Points(seen(q)), 7, nullptr, false, view(distances), view(indices),
                            memory);
    Database(Points(seen(x)), {false, false, false})
        .search<double>(Points(seen(q)), 7, nullptr, false, view(expected), view(rows), memory);
    CHECK(indices == rows && distances == expected);
}

TEST(a_pool_does_the_work) {
    const RowMatrix<float> x = random_points<float>(3000, 30);
    RowMatrix<float> distances(3000, 3);
    RowMatrix<std::int64_t> indices(3000, 3), expected(3000, 3);
    const auto search = [&](const Control &control, RowMatrix<std::int64_t> &out) {
        kneighbors<float>(Points(seen(x)), Points(seen(x)), 3, nullptr, false, view(distances),
                          view(out), control);
    };
    search({1, {}, {}}, expected);
    std::vector<std::thread> pool;
    std::vector<std::function<void()>> late;
    Control control{3, {}, {}};
    int tasks = 0;
    control.executor = [&](std::function<void()> task) {
        if (++tasks % 2 == 0)
            late.push_back(std::move(task));
        else
            pool.emplace_back(std::move(task));
    };
    search(control, indices);
    for (const auto &task : late)
        task();
    for (auto &thread : pool)
        thread.join();
    CHECK(tasks > 0 && !late.empty());
    CHECK(indices == expected);
}

TEST(per_class_pads) {
    const RowMatrix<double> y = random_points<double>(30, 2);
    std::vector<std::int64_t> labels(30, 0);
    labels[4] = labels[20] = 2;
    std::vector<double> distances(30 * 3 * 3);
    std::vector<std::int64_t> indices(30 * 3 * 3);
    const Points points(seen(y));
    kneighbors_per_class<double>(points, points, labels, 3, 3, nullptr, false, distances, indices);
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
    const std::vector<std::int64_t> labels{0, 1, 2, 0, 1};
    std::vector<double> one_each(5 * 2);
    std::vector<std::int64_t> rows(5 * 2);
    for (const Index classes : {Index(-1), Index(3), Index(1) << 62})
        CHECK_THROWS(std::invalid_argument, "(n_queries, classes, k)",
                     kneighbors_per_class<double>(points, points, labels, classes, 1, nullptr,
                                                  false, one_each, rows));
    CHECK_THROWS(std::invalid_argument, "(n_queries, classes, k)",
                 kneighbors_per_class<double>(points, points, labels, 2, Index(1) << 62, nullptr,
                                              false, one_each, rows));
}

TEST(states_are_restored) {
    if (!has_int8())
        return;
    constexpr Index d = 24;
    std::int64_t seed = 0;
    for (const Index n : {1, 2, 33, 6000})
        for (int kind = 0; kind < 6; ++kind)
            for (const Index zeros : {n, Index(4), Index(1)}) { // each of them is zero, or fewer
                RowMatrix<double> x = random_points<double>(n, d);
                const RowMatrix<double> centres =
                    (20 * random_points<double>(13, d)).array().round();
                for (Index i = 0; i < n; ++i) {
                    const auto centre = centres.row((++seed * 7919) % 13);
                    if (kind == 0)
                        x.row(i) = centre; // equal points
                    else if (kind == 1)
                        x.row(i) = centre + 1e-3 * x.row(i);
                    else if (kind == 2)
                        x.row(i) *= 1e-310;
                    else if (kind == 3)
                        x.row(i) = x.row(i).array().round();
                    else if (kind == 4)
                        x.row(i) = 1e-9 * x.row(i) + (i == n / 2 ? 1e30 : 1.0) * centre;
                    if (zeros < n && i % zeros == 0)
                        x.row(i).setZero();
                }
                const Points points(seen(x));
                const Database database(points), restored(points, database.state());
                const Index k = std::min<Index>(n, 3), m = std::min<Index>(n, 20);
                const Points queries(seen(x).middle_rows(n - m, m));
                RowMatrix<double> distances(m, k), again(m, k);
                RowMatrix<std::int64_t> indices(m, k), rows(m, k);
                DatabaseMemory memory;
                database.search<double>(queries, k, nullptr, true, view(distances), view(indices),
                                        memory);
                restored.search<double>(queries, k, nullptr, true, view(again), view(rows), memory);
                CHECK(indices == rows && distances == again);
            }
}

TEST(a_point_does_not_spoil_the_others) {
    for (const Index d : {1, 24})
        for (const double far : {1e100, 1e200, 1e300}) {
            RowMatrix<double> x = RowMatrix<double>::Zero(400, d);
            x.col(0) = Eigen::VectorXd::LinSpaced(400, 0, 39.9);
            x(399, 0) = far;
            const RowMatrix<double> q = RowMatrix<double>::Zero(70, d);
            for (const DatabaseOptions options :
                 {DatabaseOptions{}, DatabaseOptions{false, false, false}}) {
                const Database database(Points(seen(x)), options);
                RowMatrix<double> distances(70, 12);
                RowMatrix<std::int64_t> indices(70, 12);
                DatabaseMemory memory;
                database.search<double>(Points(seen(q)), 12, nullptr, false, view(distances),
                                        view(indices), memory);
                for (Index r = 0; r < 12; ++r) {
                    CHECK(indices(69, r) == r);
                    CHECK(distances(69, r) == x(r, 0));
                }
            }
        }
}

} // namespace test_neighbors
