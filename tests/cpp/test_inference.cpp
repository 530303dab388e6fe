#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_inference {

using namespace metricfast;

namespace {

/// Numbers that are the same on every machine.
struct Dice {
    std::uint64_t state = 88172645463325252u;
    /// In [0, sides).
    Index operator()(Index sides) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<Index>((state >> 16) % static_cast<std::uint64_t>(sides));
    }
};

/// Results of both kinds of inference.
struct Answers {
    RowMatrix<std::int64_t> indices[2];
    std::vector<double> values[2], deltas[2], plain;
    std::vector<std::uint8_t> feasible[2];

    Answers(Index n, Index k) : plain(static_cast<std::size_t>(n)) {
        for (int side = 0; side < 2; ++side) {
            indices[side].resize(n, k);
            values[side].resize(static_cast<std::size_t>(n));
            deltas[side].resize(static_cast<std::size_t>(n));
            feasible[side].resize(static_cast<std::size_t>(n));
        }
    }
    InferenceOutput output(int side) {
        return {{indices[side].data(), indices[side].size()},
                values[side],
                deltas[side],
                feasible[side]};
    }
    void attach(InferenceProblem &problem) {
        problem.targeted = output(0);
        problem.augmented = output(1);
        problem.plain = plain;
    }
};

/// What the vote of some points costs; they ascend in (distance, index).
double vote_loss(const std::vector<Index> &members, const std::vector<std::int64_t> &labels,
                 const InferenceOptions &options, Index y) {
    std::vector<Index> votes(static_cast<std::size_t>(options.loss.classes), 0);
    for (const Index j : members)
        ++votes[labels[j]];
    const Index most = *std::max_element(votes.begin(), votes.end());
    double least = std::numeric_limits<double>::infinity(), largest = -least;
    for (Index r = 0; r < options.loss.classes; ++r)
        if (votes[r] == most) {
            if (options.ties == Ties::label)
                return options.loss(y, r);
            least = std::min(least, options.loss(y, r));
            largest = std::max(largest, options.loss(y, r));
        }
    if (options.ties == Ties::nearest)
        for (const Index j : members)
            if (votes[labels[j]] == most)
                return options.loss(y, static_cast<Index>(labels[j]));
    return options.ties == Ties::pessimistic ? largest : least;
}

/// The best values of any set: targeted, augmented.
std::pair<double, double> enumerate(const double *distances,
                                    const std::vector<std::int64_t> &labels,
                                    const InferenceOptions &options, Index y, Index excluded) {
    const Index n = static_cast<Index>(labels.size());
    std::vector<Index> order;
    for (Index j = 0; j < n; ++j)
        if (j != excluded)
            order.push_back(j);
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return distances[a] < distances[b]; });
    const double none = -std::numeric_limits<double>::infinity();
    std::pair<double, double> best(none, none);
    for (unsigned set = 0; set < 1u << order.size(); ++set) {
        std::vector<Index> members;
        double value = 0;
        for (std::size_t i = 0; i < order.size(); ++i)
            if (set >> i & 1u) {
                members.push_back(order[i]);
                value -= distances[order[i]];
            }
        if (static_cast<Index>(members.size()) != options.k)
            continue;
        const double loss = vote_loss(members, labels, options, y);
        best.second = std::max(best.second, value + loss);
        if (loss == 0)
            best.first = std::max(best.first, value);
    }
    return best;
}

/// A small problem: integer points, so that distances are exact and some are equal.
struct Problem {
    Index n, m, classes;
    RowMatrix<float> queries, database;
    std::vector<std::int64_t> y, labels, exclude;
    std::vector<double> matrix;
    InferenceProblem problem;

    Problem(Dice &dice, Index n_, Index m_, Index side, Ties ties, bool general)
        : n(n_), m(m_), classes(2 + dice(4)), queries(n, 2), database(m, 2) {
        for (float &x : queries.reshaped())
            x = static_cast<float>(dice(side));
        for (float &x : database.reshaped())
            x = static_cast<float>(dice(side));
        for (Index i = 0; i < n; ++i) {
            y.push_back(dice(classes));
            exclude.push_back(dice(m + 4) < m ? dice(m) : -1);
        }
        for (Index j = 0; j < m; ++j)
            labels.push_back(dice(classes));
        for (Index i = 0; i < classes * classes; ++i)
            matrix.push_back(i % (classes + 1) == 0 || dice(4) == 0
                                 ? 0.0
                                 : static_cast<double>(dice(40 * side)) / 8);
        problem.query_labels = y;
        problem.database_labels = labels;
        problem.exclude = exclude;
        problem.options.k = 1 + dice(std::min<Index>(9, m - 1));
        problem.options.loss = {general ? Span<const double>(matrix) : nullptr, classes};
        problem.options.ties = ties;
    }

    RowMatrix<double> distances() const {
        RowMatrix<double> result(n, m);
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < m; ++j)
                result(i, j) = squared_distance_of(queries, i, database, j);
        return result;
    }

    Answers search(int threads) {
        Answers answers(n, problem.options.k);
        answers.attach(problem);
        InferenceSearch(Points(seen(queries)), Points(seen(database)), problem)
            .run({threads, {}, {}});
        return answers;
    }

    Answers from_distances() {
        const RowMatrix<double> given = distances();
        Answers answers(n, problem.options.k);
        answers.attach(problem);
        infer_from_distances(view(given), problem);
        return answers;
    }

    /// The set is what it is said to be.
    void check_set(const Answers &answers, int side, Index i, const RowMatrix<double> &given) {
        std::vector<Index> members;
        double value = 0;
        for (Index r = 0; r < problem.options.k; ++r) {
            const Index j = static_cast<Index>(answers.indices[side](i, r));
            CHECK(j >= 0 && j < m && j != exclude[i]);
            if (r > 0)
                CHECK(std::make_pair(given(i, members.back()), members.back()) <
                      std::make_pair(given(i, j), j));
            members.push_back(j);
            value -= given(i, j);
        }
        const double loss = vote_loss(members, labels, problem.options, y[i]);
        CHECK(loss == answers.deltas[side][i]);
        CHECK(value + (side == 1 ? loss : 0.0) == answers.values[side][i]);
        CHECK(side == 1 || loss == 0);
    }
};

const Ties policies[] = {Ties::pessimistic, Ties::optimistic, Ties::label, Ties::nearest};

} // namespace

TEST(every_set_of_small_problems) {
    Dice dice;
    Index infeasible = 0, cases = 0;
    for (const Ties ties : policies)
        for (int round = 0; round < 120; ++round) {
            Problem small(dice, 6, 2 + dice(9), 2 + dice(5), ties, round % 2 == 1);
            const RowMatrix<double> given = small.distances();
            for (const Answers &answers : {small.search(1), small.from_distances()})
                for (Index i = 0; i < small.n; ++i) {
                    const auto best =
                        enumerate(given.row(i).data(), small.labels, small.problem.options,
                                  small.y[i], static_cast<Index>(small.exclude[i]));
                    CHECK(answers.values[0][i] == best.first);
                    CHECK(answers.values[1][i] == best.second);
                    CHECK(answers.feasible[0][i] == std::isfinite(best.first));
                    CHECK(answers.feasible[1][i] == 1);
                    if (answers.feasible[0][i])
                        small.check_set(answers, 0, i, given);
                    else
                        CHECK((answers.indices[0].row(i).array() == -1).all());
                    small.check_set(answers, 1, i, given);
                    infeasible += answers.feasible[0][i] ? 0 : 1;
                    ++cases;
                }
        }
    CHECK(cases == 5760 && infeasible > 100);
}

TEST(searches_of_many_points_as_given_distances) {
    Dice dice;
    for (const Ties ties : policies)
        for (int round = 0; round < 60; ++round) {
            // Few places: too many points are equally near for any list of bounds.
            Problem large(dice, 80, 30 + (round % 2) * 300 + dice(900), round % 3 == 0 ? 3 : 60,
                          ties, round % 2 == 1);
            const RowMatrix<double> given = large.distances();
            const Answers expected = large.from_distances(), found = large.search(2);
            for (int side = 0; side < 2; ++side)
                for (Index i = 0; i < large.n; ++i) {
                    CHECK(found.values[side][i] == expected.values[side][i]);
                    CHECK(found.feasible[side][i] == expected.feasible[side][i]);
                    if (found.feasible[side][i])
                        large.check_set(found, side, i, given);
                }
            CHECK(found.plain == expected.plain);
        }
}

TEST(one_kind_alone_is_the_same) {
    Dice dice;
    for (const Ties ties : policies) {
        Problem each(dice, 40, 500, 40, ties, true);
        const Answers together = each.search(1);
        for (int side = 0; side < 2; ++side) {
            Answers alone(each.n, each.problem.options.k);
            alone.attach(each.problem);
            (side == 0 ? each.problem.augmented : each.problem.targeted) = {};
            InferenceSearch(Points(seen(each.queries)), Points(seen(each.database)), each.problem)
                .run({});
            CHECK(alone.values[side] == together.values[side]);
            CHECK(alone.feasible[side] == together.feasible[side]);
        }
    }
}

TEST(the_heuristic_of_the_literature_is_not_exact) {
    const RowMatrix<double> distances{{0.1, 0.2, 1.0, 0.3, 0.35, 0.9, 0.95}};
    const std::vector<std::int64_t> y{0}, labels{0, 0, 0, 1, 1, 2, 3};
    InferenceProblem problem;
    problem.query_labels = y;
    problem.database_labels = labels;
    problem.options.k = 5;
    problem.options.loss.classes = 4;
    Answers answers(1, 5);
    answers.attach(problem);
    infer_from_distances(view(distances), problem);
    CHECK_NEAR(answers.values[0][0], -1.95, 1e-12);
    problem.options.greedy = true;
    infer_from_distances(view(distances), problem);
    CHECK_NEAR(answers.values[0][0], -2.45, 1e-12);
}

TEST(bad_arguments_are_named) {
    Dice dice;
    Problem each(dice, 5, 20, 9, Ties::pessimistic, false);
    const RowMatrix<float> wide = random_points<float>(20, 3);
    CHECK_THROWS(
        std::invalid_argument, "differ in width",
        InferenceSearch(Points(seen(each.queries)), Points(seen(wide)), each.problem).run({}));
    each.database(4, 1) = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS(std::invalid_argument, "must be finite", each.search(1));
}

TEST(a_search_can_be_cancelled) {
    Dice dice;
    Problem each(dice, 40000, 4000, 1000, Ties::pessimistic, false);
    Answers answers(each.n, each.problem.options.k);
    each.problem.exclude = nullptr;
    answers.attach(each.problem);
    const Points queries(seen(each.queries)), database(seen(each.database));
    const InferenceSearch search(queries, database, each.problem);
    CHECK_THROWS(Cancelled, "cancelled", search.run({2, [] { return false; }, {}}));
}

TEST(sets_do_not_depend_on_the_unit) {
    Dice dice;
    for (const Ties ties : policies)
        for (const int exponent : {565, -565, 1000, -1000}) { // their squares overflow or underflow
            const double unit = std::ldexp(1.0, exponent);
            Problem each(dice, 30, 200, 40, ties, true);
            const RowMatrix<double> queries = each.queries.cast<double>() * unit,
                                    database = each.database.cast<double>() * unit;
            // Sets of the targeted kind depend on distances alone.
            each.problem.augmented = {};
            Answers expected(each.n, each.problem.options.k), found(expected), alone(expected);
            const auto run = [&](Answers &answers, bool all, const Points &q, const Points &d) {
                answers.attach(each.problem);
                each.problem.augmented = {};
                if (!all)
                    each.problem.targeted = {answers.output(0).indices, nullptr, nullptr, nullptr};
                InferenceSearch(q, d, each.problem).run({2, {}, {}});
            };
            run(expected, true, Points(seen(each.queries)), Points(seen(each.database)));
            run(found, true, Points(seen(queries)), Points(seen(database)));
            run(alone, false, Points(seen(queries)), Points(seen(database)));
            CHECK(found.indices[0] == expected.indices[0]);
            CHECK(found.indices[0] == alone.indices[0]);
            CHECK(found.deltas[0] == expected.deltas[0] && found.plain == expected.plain);
            if (exponent > 0)
                continue; // a loss of 1 does not matter beside huge distances
            each.problem.options.loss.matrix = nullptr; // outweighs tiny ones
            Answers costly(expected), given(expected);
            costly.attach(each.problem);
            InferenceSearch(Points(seen(queries)), Points(seen(database)), each.problem).run({});
            const RowMatrix<double> small = each.distances() * std::ldexp(1.0, -30);
            given.attach(each.problem);
            infer_from_distances(view(small), each.problem);
            CHECK(costly.indices[1] == given.indices[1] && costly.deltas[1] == given.deltas[1]);
        }
}

TEST(fewer_candidates_than_a_set_has_members) {
    const RowMatrix<double> distances{{1.0, 2.0, 3.0}, {1.0, 2.0, 3.0}};
    const std::vector<std::int64_t> y{0, 0}, labels{1, 1, 0}, exclude{-1, 0};
    InferenceProblem problem;
    problem.query_labels = y;
    problem.database_labels = labels;
    problem.exclude = exclude;
    problem.options.k = 3;
    problem.options.loss.classes = 2;
    std::vector<double> plain(2);
    problem.plain = plain;
    infer_from_distances(view(distances), problem);
    CHECK(plain == std::vector<double>({1, 0})); // of the second, not of the query before it
}

TEST(sets_of_more_members_than_there_are_points) {
    Dice dice;
    for (const Ties ties : policies)
        for (const Index k : {Index(21), Index(1) << 31, std::numeric_limits<Index>::max()}) {
            Problem each(dice, 5, 20, 9, ties, false);
            std::vector<double> values(5), costs(5);
            each.problem.options.k = k;
            each.problem.targeted.values = values;
            each.problem.augmented.values = costs;
            InferenceSearch(Points(seen(each.queries)), Points(seen(each.database)), each.problem)
                .run({2, {}, {}});
            CHECK(values == std::vector<double>(5, -std::numeric_limits<double>::infinity()));
            CHECK(costs == values);
        }
}

} // namespace test_inference
