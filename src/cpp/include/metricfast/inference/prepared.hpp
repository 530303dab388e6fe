/// Inference among the points of a prepared database.
///
/// A query first gets the best sets among its nearest points. A set with any other point costs at
/// least as much as the k - 1 nearest points and the farthest of those that were found. If the sets
/// are better, they are the best of all; if not, more points are searched, at last all.
#pragma once

#include "metricfast/inference/batch.hpp"
#include "metricfast/search/database.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Lower bound of the cost of a set with a right vote that has a point beyond the candidates.
inline double least_beyond(const InferenceProblem &problem, Index y,
                           const std::vector<Candidate> &candidates) {
    const Index k = problem.options.k;
    const double farthest = candidates.back().distance;
    std::vector<double> sums{0}, own{0}; // of the nearest points, and of those of class y
    std::vector<std::pair<std::int32_t, Index>> sizes;
    for (const Candidate &c : candidates) {
        if (static_cast<Index>(sums.size()) <= k)
            sums.push_back(sums.back() + c.distance);
        if (c.label == y && static_cast<Index>(own.size()) <= k)
            own.push_back(own.back() + c.distance);
        const auto same = std::find_if(sizes.begin(), sizes.end(),
                                       [&](const auto &size) { return size.first == c.label; });
        if (same == sizes.end())
            sizes.emplace_back(c.label, 1);
        else
            ++same->second;
    }
    const double any = sums[static_cast<std::size_t>(k - 1)] + farthest;
    if (problem.options.loss.matrix != nullptr || problem.options.ties == Ties::nearest)
        return any;
    // Sets with m votes for y, the winner: its m nearest points, and others up to m of each class.
    double least = std::numeric_limits<double>::infinity();
    for (Index m = 1; m <= k; ++m) {
        const Index known = std::min(m, static_cast<Index>(own.size()) - 1);
        if (known < m) {
            least = std::min(least, own[static_cast<std::size_t>(known)] +
                                        static_cast<double>(m - known) * farthest);
            continue;
        }
        const Index most = problem.options.ties == Ties::pessimistic ? m - 1 : m;
        if ((problem.options.loss.classes - 1) * most < k - m)
            continue;     // there is no such set
        Index others = 0; // at least as many are admissible, whatever the ties
        for (const auto &[label, size] : sizes)
            others += label != y ? std::min(size, m - 1) : 0;
        if (others < k - m)
            least = std::min(least, any);
    }
    return least;
}

/// Solves the problem for one query if no point beyond the candidates matters. Returns whether it
/// did.
/// \param all whether these are all points that the query may use.
inline bool solve_among(const InferenceProblem &problem, SetSolver &solver, Index query,
                        const std::vector<Candidate> &candidates, bool all) {
    const Index k = problem.options.k;
    if (static_cast<Index>(candidates.size()) < k && !all)
        return false;
    if (!candidates.empty() && !std::isfinite(candidates.back().distance))
        return false;
    if (!all) {
        constexpr double rounding = 1e-9;
        const auto y = static_cast<Index>(problem.query_labels[query]);
        solver.set_query(y, candidates);
        const double plain = solver.plain().delta, largest = problem.options.loss.largest(y);
        if (problem.targeted.wanted() && plain != 0) {
            const NeighborSet set = solver.targeted();
            if (!set.feasible ||
                !(set.cost < (1 - rounding) * least_beyond(problem, y, candidates)))
                return false;
        }
        if (problem.augmented.wanted() && plain < largest) {
            double least = candidates.back().distance;
            for (Index i = 0; i < k - 1; ++i)
                least += candidates[static_cast<std::size_t>(i)].distance;
            const NeighborSet set = solver.augmented();
            const double value = set.delta - set.cost, beyond = largest - least;
            if (!(value > beyond + rounding * (least + largest)))
                return false;
        }
    }
    solve_query(problem, solver, query, candidates);
    return true;
}

} // namespace detail

/// Inference for each query among the points of a Euclidean database.
inline void infer(const Database &database, const Points &queries, const InferenceProblem &problem,
                  DatabaseMemory &memory, const Control &control = {}) {
    require(database.space().euclidean(),
            "inference: the metric of the database must be euclidean");
    const Points &points = database.points();
    const Index n = queries.rows(), m = points.rows();
    require(queries.cols() == points.cols(), "inference: queries and database differ in width");
    problem.check_sizes(n, m);
    const Index k = problem.options.k;
    std::vector<std::int64_t> ids = identity_order(n);
    constexpr Index most = 5000; // more nearest points cost more than a search of all
    for (Index size = 8 * k + 24; !ids.empty() && !problem.options.greedy && size <= most;
         size *= 8) {
        const auto count = static_cast<Index>(ids.size());
        const Index found = std::min(size, m);
        detail::Images some(queries, queries.is_double());
        std::vector<std::int64_t> excluded;
        if (count < n)
            some.take(queries, ids);
        for (Index i = 0; problem.exclude != nullptr && i < count; ++i)
            excluded.push_back(problem.exclude[ids[i]]);
        RowMatrix<double> distances(count, found);
        RowMatrix<std::int64_t> rows(count, found);
        database.search<double>(count < n ? some.points() : queries, found,
                                problem.exclude != nullptr ? Filter(excluded) : Filter(), true,
                                view(distances), view(rows), memory, control.silent());
        std::vector<char> solved(static_cast<std::size_t>(count), 0);
        constexpr Index block = 16;
        const Control how = worth_it(control.silent(), 100.0 * static_cast<double>(count * found));
        parallel_blocks((count + block - 1) / block, how, [&](Index b, Worker &) {
            SetSolver solver(problem.options);
            std::vector<Candidate> candidates;
            for (Index i = b * block; i < std::min(count, (b + 1) * block); ++i) {
                candidates.clear();
                for (Index r = 0; r < found && rows(i, r) >= 0; ++r) {
                    const std::int64_t label = problem.database_labels[rows(i, r)];
                    require(label >= 0 && label < problem.options.loss.classes,
                            "inference: database label out of range");
                    candidates.push_back(
                        {distances(i, r), rows(i, r), static_cast<std::int32_t>(label)});
                }
                solved[i] = detail::solve_among(problem, solver, static_cast<Index>(ids[i]),
                                                candidates, found == m);
            }
        });
        std::vector<std::int64_t> rest;
        for (Index i = 0; i < count; ++i)
            if (!solved[i])
                rest.push_back(ids[i]);
        ids.swap(rest);
    }
    if (!ids.empty())
        InferenceSearch(queries, points, problem).run(control, std::move(ids));
}

METRICFAST_NAMESPACE_END
