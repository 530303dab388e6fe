/// Each allocation of a kernel fails in turn: that is a std::bad_alloc, and nothing is freed twice.
#include <atomic>
#include <cstddef>
#include <limits>
#include <new>

#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_memory {

using namespace metricfast;

namespace {

constexpr long never = std::numeric_limits<long>::max();
std::atomic<long> left{never}; ///< allocations that succeed before one fails

} // namespace

// The linker calls these for malloc and operator new, in this program's own code.
extern "C" {
void *__real_malloc(std::size_t bytes);
void *__real__Znwm(std::size_t bytes);
void *__wrap_malloc(std::size_t bytes) { return left-- == 0 ? nullptr : __real_malloc(bytes); }
void *__wrap__Znwm(std::size_t bytes) {
    if (left-- == 0)
        throw std::bad_alloc();
    return __real__Znwm(bytes);
}
}

namespace {

template <class F> void every_allocation_may_fail(F &&f) {
    long failed = 0;
    for (bool done = false; !done; failed += done ? 0 : 1) {
        left = failed;
        try {
            f();
            done = left >= 0; // some do without
        } catch (const std::bad_alloc &) {
        }
        left = never;
    }
    CHECK(failed > 0);
}

using Ids = std::vector<std::int64_t>;

/// In turn, so that tuples are of different points.
Ids ids(Index count, Index below) {
    Ids values(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i)
        values[i] = (i + i / 7) % below;
    return values;
}

const Control alone{1, {}, {}};

} // namespace

TEST(neighbors) {
    const RowMatrix<double> x = random_points<double>(300, 5);
    RowMatrix<double> distances(300, 4);
    RowMatrix<std::int64_t> indices(300, 4);
    every_allocation_may_fail([&] {
        kneighbors<double>(Points(seen(x)), Points(seen(x)), 4, nullptr, true, view(distances),
                           view(indices), alone);
    });
}

TEST(row_losses) {
    const RowMatrix<double> z = random_points<double>(2000, 3);
    const Ids labels = ids(2000, 3), some = ids(40, 3);
    RowMatrix<double> queries(2000, 3), database(40, 3);
    RowProblem<double> problem;
    problem.queries = seen(z);
    problem.database = seen(z).middle_rows(0, 40);
    using Loss = NcaLoss<double>;
    const Loss loss(Loss::Form::log, {labels, some});
    every_allocation_may_fail([&] {
        RowEngine<double>(problem, loss, alone).value_and_gradient(view(queries), view(database));
    });
    problem.queries = problem.database;
    problem.symmetric = true;
    const Loss own(Loss::Form::log, {some, some});
    every_allocation_may_fail(
        [&] { RowEngine<double>(problem, own, alone).value_and_gradient(view(database), {}); });
}

TEST(linear_maps) {
    const RowMatrix<double> x = random_points<double>(2400, 9), dz = random_points<double>(2400, 9);
    RowMatrix<double> gradient(9, 9);
    every_allocation_may_fail(
        [&] { linear_backward<double>(seen(dz), seen(x), view(gradient), alone); });
}

TEST(scatter_of_groups) {
    const RowMatrix<double> x = random_points<double>(18500, 16);
    const std::vector<double> ones(18500, 1.0);
    const Ids group(18500, 0);
    RowMatrix<double> sums(1, 16);
    every_allocation_may_fail(
        [&] { group_scatter(Points(seen(x)), ones, group, seen(x), nullptr, alone); });
    every_allocation_may_fail(
        [&] { group_sums(Points(seen(x)), ones, group, view(sums), nullptr, alone); });
}

TEST(scatter_of_neighbors) {
    const RowMatrix<double> x = random_points<double>(730, 3);
    const std::vector<double> ones(730, 1.0);
    every_allocation_may_fail([&] { local_scatter(seen(x), ones, 4, alone); });
}

TEST(differences) {
    const RowMatrix<double> x = random_points<double>(60, 5);
    const Ids tuples = ids(4 * 2200, 60);
    const std::vector<double> weights(2200, 1.0);
    every_allocation_may_fail([&] {
        lsml_loss(Points(seen(x)), {tuples, 4}, weights, seen(x).middle_rows(0, 5), alone);
    });
    every_allocation_may_fail([&] {
        sum_of_distances(Points(seen(x)), {tuples, 2}, seen(x).middle_rows(0, 1), true, alone);
    });
}

TEST(searches_of_a_database_allocate_nothing_once_their_memory_has_grown) {
    for (const Index depth : {3, 64}) {
        const RowMatrix<float> x = random_points<float>(1000, depth),
                               q = random_points<float>(7, depth);
        const Database database(Points(seen(x)), {}, alone);
        DatabaseMemory memory;
        RowMatrix<float> distances(7, 5);
        RowMatrix<std::int64_t> indices(7, 5);
        const Points queries(seen(q));
        const Ids exclude = ids(7, 1000);
        const auto search = [&] {
            database.search(queries, 5, exclude, false, view(distances), view(indices), memory,
                            alone);
        };
        search();
        left = 0;
        search();
        const bool none = left == 0;
        left = never;
        CHECK(none);
    }
}

TEST(bases) {
    const RowMatrix<double> x = random_points<double>(60, 5), basis = random_points<double>(40, 5);
    const Ids triplets = ids(3 * 500, 60), draws = ids(10 * 150, 500);
    std::vector<double> weights(40);
    every_allocation_may_fail([&] {
        const auto next = [&](Index done) {
            return ScmlDraws{{draws.data(), done == 0 ? 1000 : done == 100 ? 1500 : 0}};
        };
        Scml<double>(seen(x), triplets, seen(basis), {1e-5, 1.0, 10}).run(weights, alone, next);
    });
}

} // namespace test_memory
