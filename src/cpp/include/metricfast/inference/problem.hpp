/// Targeted and loss-augmented inference for many queries: arguments and outputs.
#pragma once

#include "metricfast/core/class_numbers.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/inference/sets.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
/// The problem with numbers of classes, so that memory does not grow with the largest label. The
/// heuristic and a loss matrix need all classes.
inline InferenceProblem numbered(InferenceProblem problem, const ClassNumbers &classes) {
    if (problem.options.loss.matrix == nullptr && !problem.options.greedy) {
        problem.query_labels = classes.queries;
        problem.database_labels = classes.database;
        problem.options.loss.classes = classes.classes;
    }
    return problem;
}

/// \param unit of the candidates' distances.
inline void write_set(const InferenceOutput &out, Index query, Index k, const NeighborSet &set,
                      const std::vector<Candidate> &candidates, bool augmented, double unit) {
    for (Index i = 0; out.indices != nullptr && i < k; ++i)
        out.indices[query * k + i] = set.feasible ? candidates[set.members[i]].index : -1;
    if (out.values != nullptr)
        out.values[query] = set.feasible ? (augmented ? set.delta : 0.0) - set.cost / unit
                                         : -std::numeric_limits<double>::infinity();
    if (out.deltas != nullptr)
        out.deltas[query] = set.feasible ? set.delta : 0.0;
    if (out.feasible != nullptr)
        out.feasible[query] = set.feasible;
}
} // namespace detail

/// Solves the problem for one query.
inline void solve_query(const InferenceProblem &problem, SetSolver &solver, Index query,
                        const std::vector<Candidate> &candidates) {
    const Index k = problem.options.k;
    solver.set_query(problem.query_labels[query], candidates);
    if (problem.plain != nullptr)
        problem.plain[query] = solver.plain().delta;
    if (problem.wrong != nullptr)
        problem.wrong[query] = solver.answer() != problem.query_labels[query];
    if (problem.targeted.wanted())
        detail::write_set(problem.targeted, query, k, solver.targeted(), candidates, false,
                          solver.unit());
    if (problem.augmented.wanted())
        detail::write_set(problem.augmented, query, k, solver.augmented(), candidates, true,
                          solver.unit());
}

/// Inference from given squared distances, (queries x database).
template <class T>
void infer_from_distances(View<const T> distances, const InferenceProblem &given,
                          const Control &control = {}) {
    given.check(distances.rows, distances.cols);
    const ClassNumbers classes(given.query_labels, given.database_labels);
    const InferenceProblem problem = detail::numbered(given, classes);
    constexpr Index block = 16;
    parallel_blocks((distances.rows + block - 1) / block, control, [&](Index b, Worker &) {
        SetSolver solver(problem.options);
        std::vector<Candidate> candidates;
        for (Index i = b * block; i < std::min(distances.rows, (b + 1) * block); ++i) {
            candidates.clear();
            for (Index j = 0; j < distances.cols; ++j) {
                const double distance = static_cast<double>(distances.row(i)[j]);
                require(!std::isnan(distance), "inference: distances must not be NaN");
                if (problem.excluded(i) != j)
                    candidates.push_back(
                        {distance, j, static_cast<std::int32_t>(problem.database_labels[j])});
            }
            std::sort(candidates.begin(), candidates.end());
            solve_query(problem, solver, i, candidates);
        }
    });
}

METRICFAST_NAMESPACE_END
