/// Targeted and loss-augmented inference for many queries against a database, without an n x m
/// matrix.
///
/// The database is sorted by class, and one sweep over it finds every point that may be in a set.
/// Of each class that are at most the k nearest, and of these only points within reach:
/// - where a set beats the k nearest points (total cost C, vote loss delta), each of its members
/// has
///   D <= D_(k) + max Delta - delta, since the others cost no less than the k - 1 nearest;
/// - in the best targeted set, won by class r, each member has D <= D_r(k), the k-th distance in
///   class r: the winner's next point could take the place of a member of another class.
/// The classes that a targeted vote may choose are therefore searched first.
#pragma once

#include "metricfast/inference.hpp"
#include "metricfast/neighbors.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Where results go, (queries x k) and one a query; null: not wanted. A query without a feasible
/// set gets indices of -1 and a value of -inf.
struct InferenceOutput {
    std::int64_t *indices = nullptr; ///< in order of (D, index)
    double *values = nullptr; ///< -(sum of squared distances), + the vote's loss if augmented
    double *deltas = nullptr;
    std::uint8_t *feasible = nullptr;

    bool wanted() const { return indices != nullptr; }

    void write(Index query, Index k, const NeighborSet &set,
               const std::vector<Candidate> &candidates, bool augmented) const {
        for (Index i = 0; i < k; ++i)
            indices[query * k + i] = set.feasible ? candidates[set.members[i]].index : -1;
        values[query] = set.feasible ? (augmented ? set.delta : 0.0) - set.cost
                                     : -std::numeric_limits<double>::infinity();
        deltas[query] = set.feasible ? set.delta : 0.0;
        feasible[query] = set.feasible;
    }
};

/// What both forms of inference are asked.
struct InferenceProblem {
    const std::int64_t *query_labels;
    const std::int64_t *database_labels;   ///< in [0, options.loss.classes), as the queries'
    const std::int64_t *exclude = nullptr; ///< per query a database row to leave out, -1: none
    InferenceOptions options;
    InferenceOutput targeted;
    InferenceOutput augmented;
    double *plain = nullptr; ///< what the vote of the k nearest points costs; null: not wanted

    void check(Index queries, Index database) const {
        require(options.k >= 1, "inference: n_neighbors must be at least 1");
        for (Index i = 0; i < queries; ++i)
            require(query_labels[i] >= 0 && query_labels[i] < options.loss.classes,
                    "inference: query label out of range");
        for (Index j = 0; j < database; ++j)
            require(database_labels[j] >= 0 && database_labels[j] < options.loss.classes,
                    "inference: database label out of range");
    }

    bool excluded(Index query, std::int64_t row) const {
        return exclude != nullptr && exclude[query] == row;
    }

    void solve(SetSolver &solver, Index query, const std::vector<Candidate> &candidates) const {
        solver.set_query(query_labels[query], candidates);
        if (plain != nullptr)
            plain[query] = solver.plain().delta;
        if (targeted.wanted())
            targeted.write(query, options.k, solver.targeted(), candidates, false);
        if (augmented.wanted())
            augmented.write(query, options.k, solver.augmented(), candidates, true);
    }
};

/// Inference from embedded points.
class InferenceSearch {
  public:
    InferenceSearch(const Points &queries, const Points &database, const InferenceProblem &problem)
        : queries_(queries), database_(database), problem_(problem),
          frame_(Frame::of(database, queries)) {
        require(queries.cols() == database.cols(),
                "inference: queries and database differ in width");
        require(database.rows() <= std::numeric_limits<std::int32_t>::max() / 2,
                "inference: the database has more than 2^30 points");
        problem.check(queries.rows(), database.rows());
        order_ = sorted_by(problem.database_labels, database.rows(), &starts_);
    }

    void run(const Control &control) const {
        const auto all = sorted_by(problem_.query_labels, queries_.rows(), nullptr);
        const Control quiet{control.threads, control.keep_going, {}};
        exhaustive(screened<double>(screened<float>(all, control), quiet), quiet);
    }

  private:
    template <class S> using List = CandidateList<S>;
    template <class S> using Entry = typename CandidateList<S>::Entry;

    Index k() const { return problem_.options.k; }
    Index classes() const { return problem_.options.loss.classes; }
    double scaled(double d) const { return d * frame_.scale * frame_.scale; }
    Candidate candidate(std::int64_t row, double distance = 0) const {
        return {distance, row, static_cast<std::int32_t>(problem_.database_labels[row])};
    }

    /// Rows by label, and where each label's begin.
    std::vector<std::int64_t> sorted_by(const std::int64_t *labels, Index n,
                                        std::vector<Index> *starts) const {
        std::vector<Index> fill(static_cast<std::size_t>(classes()) + 1, 0);
        for (Index i = 0; i < n; ++i)
            ++fill[labels[i] + 1];
        for (Index c = 0; c < classes(); ++c)
            fill[c + 1] += fill[c];
        fill.pop_back();
        if (starts != nullptr)
            *starts = fill;
        std::vector<std::int64_t> order(static_cast<std::size_t>(n));
        for (Index i = 0; i < n; ++i)
            order[fill[labels[i]]++] = i;
        return order;
    }

    /// What is known of one query in the course of a sweep.
    template <class S> struct Row {
        List<S> list; ///< of the class that is being searched
        std::vector<Entry<S>> entries;
        std::vector<S> nearest; ///< the k smallest upper bounds of all classes
        S targeted = -std::numeric_limits<S>::infinity(); ///< reach of a targeted set
        S limit = std::numeric_limits<S>::infinity();
        double slack = 0;
        bool failed = false;
    };

    template <class S>
    std::vector<std::int64_t> screened(const std::vector<std::int64_t> &ids,
                                       const Control &control) const {
        if (ids.empty())
            return {};
        const ScreenedDatabase<S> screen(database_, frame_, order_, starts_, control);
        return screened_blocks<S>(ids, database_.cols(), k(), control,
                                  [&](const std::int64_t *first, Index count, auto &crowded) {
                                      search_block<S>(screen, first, count, crowded);
                                  });
    }

    template <class S>
    void search_block(const ScreenedDatabase<S> &screen, const std::int64_t *ids, Index count,
                      std::vector<std::int64_t> &crowded) const {
        PackedQueries<S> queries(database_.cols());
        queries.pack(queries_, frame_, ids, 0, count);
        std::vector<S> thresholds(
            static_cast<std::size_t>(queries.micro_panels() * PackedQueries<S>::rows));
        std::vector<Row<S>> rows(static_cast<std::size_t>(count));
        for (Index i = 0; i < count; ++i)
            rows[i].slack = 2 * screen.error() * queries.norm(i);
        const bool by_nearest = problem_.options.ties == Ties::nearest;
        const auto sweep = [&](Index s, bool scouting) {
            std::fill(thresholds.begin(), thresholds.end(), -std::numeric_limits<S>::infinity());
            for (Index i = 0; i < count; ++i)
                if (!rows[i].failed) {
                    rows[i].list.reset(k(), rows[i].slack,
                                       reach<S>(rows[i], ids[i], scouting, by_nearest));
                    thresholds[i] = rows[i].list.threshold();
                }
            screen.sweep(screen.packed().segment_begin(s), screen.packed().segment_end(s), queries,
                         thresholds.data(), [&](Index i, Index position, S lower) {
                             // A row's threshold may have sunk since its tile was tested.
                             if (!(lower < thresholds[i]) ||
                                 problem_.excluded(ids[i], screen.packed().id(position)))
                                 return;
                             rows[i].list.add(lower, screen.slack(position), position);
                             thresholds[i] = rows[i].list.threshold();
                         });
            for (Index i = 0; i < count; ++i)
                if (!rows[i].failed)
                    finish_class<S>(rows[i], ids[i], s, scouting);
        };
        const std::vector<char> first = right_votes(ids, count);
        for (Index s = 0; s < classes(); ++s)
            if (first[s])
                sweep(s, true);
        for (auto &row : rows) {
            row.limit = limit<S>(row, ids[&row - rows.data()]);
            // Ties by the nearest member need more of a class than its k nearest.
            if (by_nearest) {
                row.entries.clear();
                row.nearest.clear();
            }
        }
        for (Index s = 0; s < classes(); ++s)
            if (!first[s] || by_nearest)
                sweep(s, false);
        SetSolver solver(problem_.options);
        for (Index i = 0; i < count; ++i) {
            if (rows[i].failed)
                crowded.push_back(ids[i]);
            else
                solve<S>(solver, screen, rows[i], static_cast<Index>(ids[i]));
        }
    }

    /// The classes that a query of the block may be given in targeted inference.
    std::vector<char> right_votes(const std::int64_t *ids, Index count) const {
        std::vector<char> found(static_cast<std::size_t>(classes()), 0);
        std::int64_t last = -1;
        for (Index i = 0; i < count; ++i) {
            const std::int64_t y = problem_.query_labels[ids[i]];
            for (Index r = 0; y != last && r < classes(); ++r)
                found[r] |= problem_.options.loss(y, r) == 0 ? 1 : 0;
            last = y;
        }
        return found;
    }

    /// Bounds of the distances that a query's candidates may have in the class to be searched.
    template <class S>
    typename List<S>::Reach reach(const Row<S> &row, std::int64_t id, bool scouting,
                                  bool by_nearest) const {
        typename List<S>::Reach result;
        if (scouting)
            return result;
        result.limit = std::min(row.limit, limit<S>(row, id));
        if (by_nearest) {
            result.floor = row.targeted;
            result.extra = augmentation(id);
            result.crowd = 16;
        }
        return result;
    }

    double augmentation(std::int64_t id) const {
        return problem_.augmented.wanted()
                   ? scaled(problem_.options.loss.largest(problem_.query_labels[id]))
                   : 0.0;
    }

    template <class S> S limit(const Row<S> &row, std::int64_t id) const {
        if (static_cast<Index>(row.nearest.size()) < k() || problem_.options.greedy)
            return std::numeric_limits<S>::infinity();
        return std::max(row.targeted,
                        above<S>(static_cast<double>(row.nearest.back()) + augmentation(id)));
    }

    template <class S>
    void finish_class(Row<S> &row, std::int64_t id, Index s, bool scouting) const {
        row.list.tighten();
        if (row.list.overflown()) {
            row.failed = true;
            return;
        }
        const auto &uppers = row.list.uppers();
        row.entries.insert(row.entries.end(), row.list.entries().begin(), row.list.entries().end());
        if (!uppers.empty()) {
            const auto middle = row.nearest.insert(row.nearest.end(), uppers.begin(), uppers.end());
            std::inplace_merge(row.nearest.begin(), middle, row.nearest.end());
            if (static_cast<Index>(row.nearest.size()) > k())
                row.nearest.resize(static_cast<std::size_t>(k()));
        }
        if (!scouting || uppers.empty() || !problem_.targeted.wanted() ||
            problem_.options.loss(problem_.query_labels[id], s) != 0)
            return;
        // A class of fewer than k points may win with all of them, and has no next one.
        const bool whole = static_cast<Index>(uppers.size()) == k();
        row.targeted = std::max(row.targeted, whole ? above<S>(uppers.back())
                                                    : std::numeric_limits<S>::infinity());
    }

    /// Exact distances where they matter, and inference.
    template <class S>
    void solve(SetSolver &solver, const ScreenedDatabase<S> &screen, Row<S> &row, Index id) const {
        std::vector<double> query(static_cast<std::size_t>(database_.cols()));
        queries_.read_row(id, query.data());
        std::vector<Candidate> candidates;
        const auto take = [&](S bound) {
            const auto beyond =
                std::partition(row.entries.begin(), row.entries.end(),
                               [&](const Entry<S> &e) { return !(e.lower < bound); });
            const std::size_t old = candidates.size();
            for (auto e = beyond; e != row.entries.end(); ++e)
                candidates.push_back(candidate(screen.packed().id(e->position)));
            row.entries.erase(beyond, row.entries.end());
            set_distances(query.data(), database_, frame_.scale, candidates.data() + old,
                          candidates.size() - old);
            for (std::size_t c = old; c < candidates.size(); ++c)
                candidates[c].distance = candidates[c].distance / frame_.scale / frame_.scale;
            std::sort(candidates.begin(), candidates.end());
        };
        const S everything = std::numeric_limits<S>::infinity();
        if (problem_.options.greedy || static_cast<Index>(row.nearest.size()) < k()) {
            take(everything);
        } else {
            take(above<S>(row.nearest.back()));
            solver.set_query(problem_.query_labels[id], candidates);
            const double plain = solver.plain().delta;
            S bound = -everything;
            if (problem_.targeted.wanted() && plain != 0)
                bound = row.targeted;
            if (problem_.augmented.wanted())
                bound = std::max(bound, above<S>(static_cast<double>(row.nearest.back()) +
                                                 augmentation(id) - scaled(plain)));
            take(bound);
        }
        problem_.solve(solver, id, candidates);
    }

    /// Every distance computed directly: for queries with too many (near-)equal neighbours.
    void exhaustive(const std::vector<std::int64_t> &ids, const Control &control) const {
        parallel_blocks(static_cast<Index>(ids.size()), control, [&](Index b, Worker &) {
            const Index id = static_cast<Index>(ids[b]);
            std::vector<double> query(static_cast<std::size_t>(database_.cols()));
            queries_.read_row(id, query.data());
            std::vector<Candidate> candidates;
            for (Index j = 0; j < database_.rows(); ++j)
                if (!problem_.excluded(id, j))
                    candidates.push_back(candidate(
                        j, exact_squared_distance(query.data(), database_, j, frame_.scale) /
                               frame_.scale / frame_.scale));
            std::sort(candidates.begin(), candidates.end());
            SetSolver solver(problem_.options);
            problem_.solve(solver, id, candidates);
        });
    }

    const Points &queries_;
    const Points &database_;
    const InferenceProblem &problem_;
    Frame frame_;
    std::vector<std::int64_t> order_;
    std::vector<Index> starts_;
};

/// Inference from squared distances that are given, (queries x database).
template <class T>
void infer_from_distances(View<const T> distances, const InferenceProblem &problem,
                          const Control &control = {}) {
    problem.check(distances.rows, distances.cols);
    constexpr Index block = 16;
    parallel_blocks((distances.rows + block - 1) / block, control, [&](Index b, Worker &) {
        SetSolver solver(problem.options);
        std::vector<Candidate> candidates;
        for (Index i = b * block; i < std::min(distances.rows, (b + 1) * block); ++i) {
            candidates.clear();
            for (Index j = 0; j < distances.cols; ++j)
                if (!problem.excluded(i, j))
                    candidates.push_back({static_cast<double>(distances.row(i)[j]), j,
                                          static_cast<std::int32_t>(problem.database_labels[j])});
            std::sort(candidates.begin(), candidates.end());
            problem.solve(solver, i, candidates);
        }
    });
}

METRICFAST_NAMESPACE_END
