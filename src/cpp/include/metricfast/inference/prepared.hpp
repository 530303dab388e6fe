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

/// Whether the vote's winner limits the points of other classes, whatever the costs.
inline bool by_votes(const InferenceProblem &problem) {
    return problem.options.loss.matrix == nullptr && problem.options.ties != Ties::nearest;
}

/// Lower bound of the cost of a set with a right vote that has a point beyond the candidates.
/// \param members the k nearest points of class y, or all; null if they are not known.
inline double least_beyond(const InferenceProblem &problem, Index y,
                           const std::vector<Candidate> &candidates,
                           const std::vector<Candidate> *members) {
    const Index k = problem.options.k;
    const double farthest = candidates.back().distance;
    std::vector<double> sums{0}, own{0}, others{0}; // of the nearest points, by class
    std::vector<std::pair<std::int32_t, Index>> sizes;
    const auto add = [k](std::vector<double> &to, double distance) {
        if (static_cast<Index>(to.size()) <= k)
            to.push_back(to.back() + distance);
    };
    for (const Candidate &c : candidates) {
        add(sums, c.distance);
        add(c.label == y ? own : others, c.distance);
        const auto same = std::find_if(sizes.begin(), sizes.end(),
                                       [&](const auto &size) { return size.first == c.label; });
        if (same == sizes.end())
            sizes.emplace_back(c.label, 1);
        else
            ++same->second;
    }
    const double any = sums[static_cast<std::size_t>(k - 1)] + farthest;
    if (!by_votes(problem))
        return any;
    if (members != nullptr) {
        own = {0};
        for (const Candidate &c : *members)
            add(own, c.distance);
    }
    while (static_cast<Index>(others.size()) <= k)
        add(others, farthest);
    // Sets with m votes for y, the winner: its m nearest points, and others up to m of each class.
    double least = std::numeric_limits<double>::infinity();
    for (Index m = 1; m <= k; ++m) {
        const Index known = std::min(m, static_cast<Index>(own.size()) - 1);
        if (known < m) {
            if (members == nullptr)
                least = std::min(least, own[static_cast<std::size_t>(known)] +
                                            static_cast<double>(m - known) * farthest);
            continue;
        }
        const Index most = problem.options.ties == Ties::pessimistic ? m - 1 : m;
        if ((problem.options.loss.classes - 1) * most < k - m)
            continue;         // there is no such set
        Index admissible = 0; // at least as many others are, whatever the ties
        for (const auto &[label, size] : sizes)
            admissible += label != y ? std::min(size, m - 1) : 0;
        if (admissible < k - m)
            least = std::min(least, own[static_cast<std::size_t>(m)] +
                                        others[static_cast<std::size_t>(k - m - 1)] + farthest);
    }
    return least;
}

/// Solves the problem for one query if no point beyond the candidates matters. Returns whether it
/// did.
/// \param candidates the nearest points.
/// \param members see least_beyond().
/// \param all whether these are all points that the query may use.
inline bool solve_among(const InferenceProblem &problem, SetSolver &solver, Index query,
                        const std::vector<Candidate> &candidates,
                        const std::vector<Candidate> *members, bool all) {
    const Index k = problem.options.k;
    if (static_cast<Index>(candidates.size()) < k && !all)
        return false;
    if (!candidates.empty() && !std::isfinite(candidates.back().distance))
        return false;
    if (all) {
        solve_query(problem, solver, query, candidates);
        return true;
    }
    std::vector<Candidate> points(candidates);
    if (members != nullptr) {
        for (const Candidate &c : *members)
            if (std::none_of(candidates.begin(), candidates.end(),
                             [&](const Candidate &other) { return other.index == c.index; }))
                points.push_back(c);
        std::sort(points.begin(), points.end());
    }
    constexpr double rounding = 1e-9;
    const auto y = static_cast<Index>(problem.query_labels[query]);
    solver.set_query(y, points);
    const double plain = solver.plain().delta, largest = problem.options.loss.largest(y);
    if (problem.targeted.wanted() && plain != 0) {
        const NeighborSet set = solver.targeted();
        if (!set.feasible ||
            !(set.cost < (1 - rounding) * least_beyond(problem, y, candidates, members)))
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
    solve_query(problem, solver, query, points);
    return true;
}

} // namespace detail

/// Inference for each query among the points of a database; see InferenceSearch.
inline void infer(const Database &database, const Points &queries, const InferenceProblem &problem,
                  DatabaseMemory &memory, const Control &control = {}) {
    const Metric metric = database.space().metric();
    require(metric != Metric::inner_product, "inference: the metric must be euclidean or cosine");
    const double factor = metric == Metric::cosine ? 2 : 1;
    const Points &points = database.points();
    const Index n = queries.rows(), m = points.rows();
    require(queries.cols() == points.cols(), "inference: queries and database differ in width");
    problem.check_sizes(n, m);
    const Index k = problem.options.k;
    std::vector<std::int64_t> ids = identity_order(n);
    // Lists of the nearest points of each query in ids, of all classes or of the query's class.
    using Lists = std::vector<std::vector<Candidate>>;
    const auto nearest = [&](Index size, bool of_class) {
        const auto count = static_cast<Index>(ids.size());
        detail::Images some(queries, queries.is_double());
        std::vector<std::int64_t> excluded, labels;
        if (count < n)
            some.take(queries, ids);
        for (const std::int64_t id : ids) {
            excluded.push_back(problem.excluded(id));
            labels.push_back(problem.query_labels[id]);
        }
        Filter filter;
        if (problem.exclude != nullptr)
            filter.exclude = excluded;
        if (of_class) {
            filter.query_labels = labels;
            filter.labels = problem.database_labels;
            filter.equal = true;
        }
        RowMatrix<double> distances(count, size);
        RowMatrix<std::int64_t> rows(count, size);
        database.search<double>(count < n ? some.points() : queries, size, filter, true,
                                view(distances), view(rows), memory, control.silent());
        Lists lists(ids.size());
        for (Index i = 0; i < count; ++i)
            for (Index r = 0; r < size && rows(i, r) >= 0; ++r) {
                const std::int64_t label = problem.database_labels[rows(i, r)];
                require(label >= 0 && label < problem.options.loss.classes,
                        "inference: database label out of range");
                lists[i].push_back(
                    {factor * distances(i, r), rows(i, r), static_cast<std::int32_t>(label)});
            }
        return lists;
    };
    /// Solves the problem for queries in ids, and keeps the others.
    const auto solve = [&](Lists &lists, Lists *members, bool all) {
        const auto count = static_cast<Index>(ids.size());
        std::vector<char> solved(ids.size(), 0);
        constexpr Index block = 16;
        const Control how =
            worth_it(control.silent(), 100.0 * static_cast<double>(count * lists[0].size()));
        parallel_blocks((count + block - 1) / block, how, [&](Index b, Worker &) {
            SetSolver solver(problem.options);
            for (Index i = b * block; i < std::min(count, (b + 1) * block); ++i)
                solved[i] =
                    detail::solve_among(problem, solver, static_cast<Index>(ids[i]), lists[i],
                                        members != nullptr ? &(*members)[i] : nullptr, all);
        });
        std::size_t kept = 0;
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (!solved[i]) {
                ids[kept] = ids[i];
                lists[kept].swap(lists[i]);
                if (members != nullptr)
                    (*members)[kept].swap((*members)[i]);
                ++kept;
            }
        ids.resize(kept);
    };
    const bool of_class = problem.targeted.wanted() && detail::by_votes(problem);
    Lists members;
    constexpr Index most = 5000; // more nearest points cost more than a search of all
    // With many classes, few of the nearest points are of the query's class, and these are found by
    // their label.
    const bool rare = of_class && problem.options.loss.classes >= 32 && !problem.augmented.wanted();
    for (Index size = rare ? 2 * k + 6 : 8 * k + 24;
         !ids.empty() && !problem.options.greedy && size <= most; size *= 8) {
        const Index found = std::min(size, m);
        Lists lists = nearest(found, false);
        if (members.empty())
            solve(lists, nullptr, found == m);
        if (!of_class || ids.empty())
            continue;
        if (members.empty())
            members = nearest(std::min(k, m), true);
        solve(lists, &members, found == m);
    }
    if (!ids.empty())
        InferenceSearch(queries, points, problem, metric).run(control, std::move(ids));
}

METRICFAST_NAMESPACE_END
