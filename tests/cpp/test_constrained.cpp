#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_constrained {

using namespace metricfast;

namespace {

constexpr Index n = 60, d = 5;
using Ids = std::vector<std::int64_t>;
using Vector = Eigen::RowVectorXd;

/// Rows of points, the same on every machine; neighbours in the list differ.
Ids tuples(Index count, Index size) {
    Ids index(static_cast<std::size_t>(count * size));
    for (Index i = 0; i < count * size; ++i)
        index[i] = (i * 37 + (i / size) * 11) % n;
    return index;
}

Vector difference(const RowMatrix<double> &x, std::int64_t a, std::int64_t b) {
    return x.row(a) - x.row(b);
}

} // namespace

TEST(itml_projects_onto_one_pair_after_the_other) {
    const RowMatrix<double> x = random_points<double>(n, d);
    const Points points(seen(x));
    const Ids pairs = tuples(71, 2);
    const ItmlBounds bounds{2.0, 30.0, 0.7};
    const Index similar = 12;
    RowMatrix<double> M = RowMatrix<double>::Identity(d, d), expected = M;
    std::vector<double> duals(71, 0.0), slow(71, 0.0), slack(71, bounds.dissimilar);
    std::vector<double> others(71, 0.0);
    std::fill(slack.begin(), slack.begin() + similar, bounds.similar);
    RowMatrix<double> gram = x * x.transpose();
    Itml itml({points, pairs, similar}, bounds, seen(M));
    Itml of_gram({View<const double>(nullptr, n, 0), pairs, similar}, bounds, seen(gram));
    for (int sweep = 0; sweep < 3; ++sweep) {
        itml.sweep(duals, {});
        of_gram.sweep(others, {});
        for (Index i = 0; i < 71; ++i) { // Davis et al. 2007, algorithm 1
            const double delta = i < similar ? 1 : -1, gamma = bounds.gamma;
            const Vector v = difference(x, pairs[2 * i], pairs[2 * i + 1]);
            const double p = v * expected * v.transpose();
            const double wanted = gamma / (gamma + 1) * delta * (1 / p - 1 / slack[i]);
            const double alpha = std::min(slow[i], wanted);
            const double beta = delta * alpha / (1 - delta * alpha * p);
            slack[i] = 1 / (1 / slack[i] + delta * alpha / gamma);
            slow[i] -= alpha;
            const Vector u = v * expected;
            expected += beta * u.transpose() * u;
        }
    }
    itml.read(view(M));
    CHECK((M - RowMatrix<double>::Identity(d, d)).norm() > 0.1);
    CHECK((M.array() == M.transpose().array()).all());
    check_same(M, expected, 1e-9);
    of_gram.read(view(gram));
    check_same(gram, RowMatrix<double>(x * expected * x.transpose()), 1e-9);
    for (Index i = 0; i < 71; ++i)
        CHECK_NEAR(others[i], duals[i], 1e-9);
}

TEST(itml_checks_what_it_is_given) {
    const RowMatrix<double> x = random_points<double>(n, d), wide = random_points<double>(n, d + 1);
    const RowMatrix<double> M = RowMatrix<double>::Identity(d, d);
    Ids pairs = tuples(4, 2);
    const Points points(seen(x)), wider(seen(wide));
    const auto make = [&](const Points &p, Index similar, const ItmlBounds &bounds) {
        return Itml({p, pairs, similar}, bounds, seen(M));
    };
    CHECK_THROWS(std::invalid_argument, "M must be square",
                 Itml({points, pairs, 2}, {1, 2, 1}, seen(x)));
    CHECK_THROWS(std::invalid_argument, "differ in width", make(wider, 2, {1, 2, 1}));
    CHECK_THROWS(std::invalid_argument, "similar must be from 0", make(points, 5, {1, 2, 1}));
    for (const std::int64_t outside : {std::int64_t(-1), std::int64_t(n)}) {
        pairs[7] = outside;
        CHECK_THROWS(std::invalid_argument, "outside the points", make(points, 2, {1, 2, 1}));
    }
}

TEST(lsml_sums_squared_excesses) {
    const RowMatrix<double> x = random_points<double>(n, d), L = random_points<double>(3, d);
    const Ids index = tuples(700, 4);
    std::vector<double> weights(700);
    RowMatrix<double> scatter = RowMatrix<double>::Zero(d, d);
    double value = 0;
    for (Index i = 0; i < 700; ++i) {
        weights[i] = 0.1 * static_cast<double>(i % 7);
        const auto *t = &index[4 * i];
        const Vector near = difference(x, t[0], t[1]), far = difference(x, t[2], t[3]);
        const double a = (near * L.transpose()).norm(), b = (far * L.transpose()).norm();
        if (a <= b)
            continue;
        value += weights[i] * (a - b) * (a - b);
        scatter += weights[i] * (a - b) * (near.transpose() * near / a);
        if (b > 0)
            scatter -= weights[i] * (a - b) * (far.transpose() * far / b);
    }
    const Points points(seen(x));
    for (const int threads : {1, 3}) {
        const auto found = lsml_loss(points, {index, 4}, weights, seen(L), {threads, {}, {}});
        CHECK_NEAR(found.value, value, 1e-9 * value);
        check_same(found.scatter, scatter, 1e-10);
    }
    const RowMatrix<double> narrow = random_points<double>(2, d - 1);
    CHECK_THROWS(std::invalid_argument, "expected quadruplets",
                 lsml_loss(points, {index, 2}, weights, seen(L)));
    CHECK_THROWS(std::invalid_argument, "differ in width",
                 lsml_loss(points, {index, 4}, weights, seen(narrow)));
}

TEST(mmc_sums_distances_and_squares) {
    const RowMatrix<double> x = random_points<double>(n, d), L = random_points<double>(d, d);
    const RowMatrix<double> diagonal = L.row(0);
    const Ids index = tuples(600, 2);
    const Points points(seen(x));
    const TupleList pairs{index, 2};
    for (const bool is_diagonal : {false, true}) {
        const RowMatrix<double> map =
            is_diagonal ? RowMatrix<double>(diagonal.row(0).asDiagonal()) : L;
        const View<const double> given = is_diagonal ? seen(diagonal) : seen(L);
        double lengths = 0, squares = 0;
        RowMatrix<double> of_lengths = RowMatrix<double>::Zero(d, d), of_squares = of_lengths;
        for (Index i = 0; i < 600; ++i) {
            const Vector v = difference(x, index[2 * i], index[2 * i + 1]);
            const double length = (v * map.transpose()).norm();
            lengths += length;
            squares += length * length;
            of_squares += v.transpose() * v;
            if (length > 0)
                of_lengths += v.transpose() * v / length;
        }
        if (is_diagonal) {
            of_lengths = RowMatrix<double>(of_lengths.diagonal().transpose());
            of_squares = RowMatrix<double>(of_squares.diagonal().transpose());
        }
        const auto sum = sum_of_distances(points, pairs, given, is_diagonal);
        CHECK_NEAR(sum.value, lengths, 1e-9 * lengths);
        check_same(sum.scatter, of_lengths, 1e-10);
        const auto squared = sum_of_squared_distances(points, pairs, given, is_diagonal);
        CHECK_NEAR(squared.value, squares, 1e-9 * squares);
        check_same(squared.scatter, of_squares, 1e-10);
    }
    const Ids wrong{0, -1};
    CHECK_THROWS(std::invalid_argument, "outside the points",
                 sum_of_distances(points, {wrong, 2}, seen(L), false));
    CHECK_THROWS(std::invalid_argument, "must hold pairs",
                 sum_of_squared_distances(points, {index, 3}, seen(L), false));
}

TEST(scml_is_dual_averaging) {
    constexpr Index count = 200, iterations = 400, batch = 3;
    const RowMatrix<double> many = random_points<double>(2 * iterations * batch + 1, d);
    const RowMatrix<double> x = many.topRows(n), basis = random_points<double>(20, d);
    const Ids triplets = tuples(count, 3);
    const double beta = 1e-3, gamma = 0.5;
    Ids draws(iterations * batch);
    for (Index i = 0; i < iterations * batch; ++i)
        draws[i] = (i * 53 + i / 7) % count;
    Eigen::ArrayXd w = Eigen::ArrayXd::Zero(20), sum = w, squares = w;
    for (Index i = 0; i < iterations; ++i) {
        Eigen::ArrayXd gradient = Eigen::ArrayXd::Zero(20);
        for (Index k = 0; k < batch; ++k) {
            const auto *t = &triplets[3 * draws[i * batch + k]];
            const Eigen::ArrayXd gain =
                (basis * difference(x, t[0], t[1]).transpose()).array().square() -
                (basis * difference(x, t[0], t[2]).transpose()).array().square();
            if (1 + (w * gain).sum() > 0)
                gradient += gain / static_cast<double>(batch);
        }
        sum += gradient;
        squares += gradient.square();
        w = (-sum - static_cast<double>(i + 1) * beta).max(0.0) /
            (gamma * (0.001 + squares.sqrt()));
    }
    CHECK(w.maxCoeff() > 0);
    std::vector<double> weights(20);
    const auto next = [&](Index done) { return done == 0 ? ScmlDraws{draws} : ScmlDraws{}; };
    for (const Index rows : {n, many.rows()}) { // projects all points, and only the drawn ones
        const RowMatrix<double> points = many.topRows(rows);
        Scml<double>(seen(points), triplets, seen(basis), {beta, gamma, batch})
            .run(weights, {}, next);
        check_same(Eigen::Map<Eigen::ArrayXd>(weights.data(), 20).matrix(), w.matrix(), 1e-8);
    }

    const RowMatrix<double> narrow = random_points<double>(3, d - 1);
    Ids wrong = triplets;
    wrong[3 * count - 1] = n;
    const auto make = [&](const Ids &t, const RowMatrix<double> &b, const ScmlSettings &settings) {
        return Scml<double>(seen(x), t, seen(b), settings);
    };
    CHECK_THROWS(std::invalid_argument, "differ in width", make(triplets, narrow, {beta, 1, 1}));
    CHECK_THROWS(std::invalid_argument, "outside the points", make(wrong, basis, {beta, 1, 1}));
    draws[5] = count;
    Scml<double> scml(seen(x), triplets, seen(basis), {beta, gamma, batch});
    CHECK_THROWS(std::invalid_argument, "", scml.run(weights, {}, next));
}

TEST(triplet_objective_is_the_mean_hinge_at_the_best_scale) {
    const RowMatrix<double> x = random_points<double>(n, d), L = random_points<double>(2, d);
    const Ids triplets = tuples(500, 3);
    const Points points(seen(x));
    const auto at = [&](double scale) {
        double total = 0;
        for (Index i = 0; i < 500; ++i) {
            const auto *t = &triplets[3 * i];
            const double near = (difference(x, t[0], t[1]) * L.transpose()).squaredNorm();
            const double far = (difference(x, t[0], t[2]) * L.transpose()).squaredNorm();
            total += std::max(0.0, 1 + scale * (near - far)) / 500;
        }
        return total;
    };
    const auto found = triplet_objective(points, view(L), triplets, nullptr, 0.0);
    CHECK_NEAR(found.value, at(found.scale), 1e-9);
    for (const double factor : {0.5, 0.9, 1.1, 2.0})
        CHECK(at(found.scale) <= at(found.scale * factor) + 1e-6 || found.scale == 1);
    CHECK_THROWS(std::invalid_argument, "there are no triplets",
                 triplet_objective(points, view(L), nullptr, nullptr, 0.0));
}

TEST(oasis_is_passive_aggressive) {
    const RowMatrix<double> x = random_points<double>(n, d);
    const Ids triplets = tuples(100, 3);
    std::vector<double> weights(100);
    Ids order(100);
    for (Index i = 0; i < 100; ++i) {
        weights[i] = static_cast<double>(i % 3) / 2;
        order[i] = 99 - i;
    }
    for (const Weights v : {Weights(), Weights(weights)}) {
        RowMatrix<double> W = RowMatrix<double>::Identity(d, d), expected = W;
        double loss_sum = 0;
        for (const std::int64_t i : order) {
            const auto *t = &triplets[3 * i];
            const double weight = v != nullptr ? v[i] : 1;
            const Vector a = x.row(t[0]), step = difference(x, t[1], t[2]);
            const double loss = 1 - a.dot(step * expected.transpose());
            if (loss <= 0)
                continue;
            loss_sum += weight * loss;
            const double size = a.squaredNorm() * step.squaredNorm();
            if (size > 0)
                expected += std::min(0.1 * weight, loss / size) * a.transpose() * step;
        }
        const auto totals = oasis<double>(seen(x), triplets, v, order, 0.1, view(W));
        check_same(W, expected, 1e-10);
        CHECK_NEAR(totals.loss, loss_sum, 1e-9 * loss_sum);
        CHECK(totals.updates > 0);
    }
    RowMatrix<double> W = RowMatrix<double>::Identity(d, d), narrow(d, d - 1);
    const auto run = [&](const Ids &t, const Ids &o, RowMatrix<double> &map) {
        return oasis<double>(seen(x), t, nullptr, o, 0.1, view(map));
    };
    Ids wrong = triplets, late = order;
    wrong[0] = n;
    late[0] = 100;
    CHECK_THROWS(std::invalid_argument, "W must be (d, d)", run(triplets, order, narrow));
    CHECK_THROWS(std::invalid_argument, "outside the points", run(wrong, order, W));
    CHECK_THROWS(std::invalid_argument, "outside the triplets", run(triplets, late, W));
}

} // namespace test_constrained
