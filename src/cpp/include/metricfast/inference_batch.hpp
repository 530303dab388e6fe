/// Targeted and loss-augmented inference for many queries against a database, without an n x m
/// matrix.
///
/// The database is sorted by class, and one sweep over it finds every point that may be in a set.
/// Of each class that are at most the k nearest, and of these only points within reach:
/// - in the best targeted set, won by class r, each member has D <= D_r(k), the k-th distance in
///   class r: the winner's next point could take the place of a member of another class;
/// - the best augmented set beats the k nearest points, and the sets that any class wins with its
///   k / 2 + 1 nearest points beside the query's own, so that its cost is limited, and with it the
///   distance of each member beyond those of the k - 1 nearest.
/// The classes that a targeted vote may choose are therefore searched first, then the others from
/// near to far. How near the k - 1 nearest are is known in the end only; until then those found so
/// far stand for them, and where that was too hopeful, the search is repeated.
#pragma once

#include "metricfast/class_means.hpp"
#include "metricfast/inference_problem.hpp"
#include "metricfast/neighbors.hpp"

METRICFAST_NAMESPACE_BEGIN

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
        order_ = order_by_label(problem.database_labels, database.rows(), classes(), &starts_);
        means_ = ClassMeans(database, frame_, problem.database_labels, classes());
    }

    void run(const Control &control) const {
        const auto all = order_by_label(problem_.query_labels, queries_.rows(), classes(), nullptr);
        const Control quiet{control.threads, control.keep_going, {}};
        const auto hopeless = screened<float>(all, true, control);
        const auto crowded = screened<float>(hopeless, false, quiet);
        infer_exhaustively(queries_, database_, frame_.scale, problem_,
                           screened<double>(crowded, false, quiet), quiet);
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

    /// What is known of one query in the course of a sweep.
    template <class S> struct Row {
        List<S> list; ///< of the class that is being searched
        std::vector<Entry<S>> entries;
        std::vector<S> nearest; ///< the k smallest upper bounds of all classes
        std::vector<S> own;     ///< those of the query's class
        S targeted = -std::numeric_limits<S>::infinity(); ///< reach of a targeted set
        S limit = std::numeric_limits<S>::infinity();
        S narrowest = std::numeric_limits<S>::infinity(); ///< limit of any class's search
        /// Cost less loss of some set, at most.
        double best = std::numeric_limits<double>::infinity();
        double slack = 0;
        bool failed = false;
    };

    /// Memory of one block's queries, in turn.
    struct Scratch {
        std::vector<double> query;
        std::vector<Candidate> candidates;
    };

    template <class S>
    std::vector<std::int64_t> screened(const std::vector<std::int64_t> &ids, bool hopeful,
                                       const Control &control) const {
        if (ids.empty())
            return {};
        const ScreenedDatabase<S> screen(database_, frame_, order_, starts_, control);
        // What the bounds of k distances may be wrong by, without the query's share.
        double error = hopeful ? 0 : std::numeric_limits<double>::infinity();
        for (Index j = 0; hopeful && j < screen.packed().positions(); ++j)
            if (screen.packed().id(j) >= 0)
                error = std::max(error, static_cast<double>(k()) * screen.slack(j));
        return screened_blocks<S>(ids, database_.cols(), k(), control,
                                  [&](const std::int64_t *first, Index count, auto &crowded) {
                                      search_block<S>(screen, error, first, count, crowded);
                                  });
    }

    template <class S>
    void search_block(const ScreenedDatabase<S> &screen, double error, const std::int64_t *ids,
                      Index count, std::vector<std::int64_t> &crowded) const {
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
                                       reach<S>(rows[i], error, ids[i], scouting, by_nearest));
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
            row.limit = limit<S>(row, error, ids[&row - rows.data()]);
            // Ties by the nearest member need more of a class than its k nearest.
            if (by_nearest) {
                row.entries.clear();
                row.nearest.clear();
            }
        }
        for (const Index s : means_.near_to_far(queries_, ids, count))
            if (!first[s] || by_nearest)
                sweep(s, false);
        SetSolver solver(problem_.options);
        Scratch scratch;
        for (Index i = 0; i < count; ++i) {
            if (rows[i].failed ||
                !solve<S>(solver, screen, error, rows[i], static_cast<Index>(ids[i]), scratch))
                crowded.push_back(ids[i]);
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

    /// Bounds of the distances that a query's candidates may have in the class to
    /// be searched.
    template <class S>
    typename List<S>::Reach reach(Row<S> &row, double error, std::int64_t id, bool scouting,
                                  bool by_nearest) const {
        typename List<S>::Reach result;
        if (scouting)
            return result;
        result.limit = std::min(row.limit, limit<S>(row, error, id));
        row.narrowest = std::min(row.narrowest, result.limit);
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

    template <class S> S limit(const Row<S> &row, double error, std::int64_t id) const {
        if (static_cast<Index>(row.nearest.size()) < k() || problem_.options.greedy)
            return std::numeric_limits<S>::infinity();
        return std::max(row.targeted, augmented_reach<S>(row, error, id, 0));
    }

    /// No member of the best augmented set is farther, if `nearest` are the k
    /// nearest of all and their vote costs `plain` at least.
    template <class S>
    S augmented_reach(const Row<S> &row, double error, std::int64_t id, double plain) const {
        const double largest = augmentation(id), last = static_cast<double>(row.nearest.back());
        const double known = row.best + largest - others<S>(row);
        const double reach = std::min(last + largest - scaled(plain),
                                      known + error + static_cast<double>(k()) * row.slack);
        return above<S>(std::max(reach, last));
    }

    /// What the k - 1 nearest cost, at most.
    template <class S> double others(const Row<S> &row) const {
        double sum = 0;
        for (Index i = 0; i + 1 < k(); ++i)
            sum += static_cast<double>(row.nearest[i]);
        return sum;
    }

    template <class S>
    void finish_class(Row<S> &row, std::int64_t id, Index s, bool scouting) const {
        row.list.tighten();
        if (row.list.overflown()) {
            row.failed = true;
            return;
        }
        const auto &uppers = row.list.uppers();
        for (const S upper : uppers) {
            if (static_cast<Index>(row.nearest.size()) == k()) {
                if (!(upper < row.nearest.back()))
                    break;
                row.nearest.pop_back();
            }
            row.nearest.insert(std::upper_bound(row.nearest.begin(), row.nearest.end(), upper),
                               upper);
        }
        const std::int64_t y = problem_.query_labels[id];
        if (s == y)
            row.own = uppers;
        else if (problem_.augmented.wanted())
            row.best =
                std::min(row.best, majority(uppers, row.own) - scaled(problem_.options.loss(y, s)));
        row.entries.insert(row.entries.end(), row.list.entries().begin(), row.list.entries().end());
        if (!scouting || uppers.empty() || !problem_.targeted.wanted() ||
            problem_.options.loss(y, s) != 0)
            return;
        // A class of fewer than k points may win with all of them, and has no next one.
        const bool whole = static_cast<Index>(uppers.size()) == k();
        row.targeted = std::max(row.targeted, whole ? above<S>(uppers.back())
                                                    : std::numeric_limits<S>::infinity());
    }

    /// At most what k / 2 + 1 points of a class cost that are completed with the query's own.
    template <class S>
    double majority(const std::vector<S> &uppers, const std::vector<S> &own) const {
        const std::size_t most = static_cast<std::size_t>(k() / 2 + 1);
        const std::size_t rest = static_cast<std::size_t>(k()) - most;
        if (uppers.size() < most || own.size() < rest)
            return std::numeric_limits<double>::infinity();
        double cost = 0;
        for (std::size_t i = 0; i < most; ++i)
            cost += static_cast<double>(uppers[i]);
        for (std::size_t i = 0; i < rest; ++i)
            cost += static_cast<double>(own[i]);
        return cost;
    }

    /// Moves the entries below `bound` to the candidates, with exact distances.
    template <class S>
    void take(const ScreenedDatabase<S> &screen, Row<S> &row, S bound, Scratch &scratch) const {
        const auto beyond = std::partition(row.entries.begin(), row.entries.end(),
                                           [&](const Entry<S> &e) { return !(e.lower < bound); });
        if (beyond == row.entries.end())
            return;
        auto &candidates = scratch.candidates;
        const std::size_t old = candidates.size();
        for (auto e = beyond; e != row.entries.end(); ++e)
            candidates.push_back(candidate(screen.packed().id(e->position)));
        row.entries.erase(beyond, row.entries.end());
        set_distances(scratch.query.data(), database_, frame_.scale, candidates.data() + old,
                      candidates.size() - old);
        const double unit = 1 / frame_.scale;
        for (std::size_t c = old; c < candidates.size(); ++c)
            candidates[c].distance = candidates[c].distance * unit * unit;
        std::sort(candidates.begin(), candidates.end());
    }

    /// Takes all that the best targeted set may hold; returns their bound.
    ///
    /// Where the query's class is the only right one and has m votes in the set,
    /// no member is farther than its next point, and a set of known cost limits
    /// m.
    template <class S>
    S take_targeted(SetSolver &solver, const ScreenedDatabase<S> &screen, double error, Row<S> &row,
                    Index id, Scratch &scratch) const {
        const std::int64_t y = problem_.query_labels[id];
        const auto next = [&](Index m) {
            return above<S>(row.own[static_cast<std::size_t>(std::min(m, k() - 1))]);
        };
        if (static_cast<Index>(row.own.size()) < k() || !std::isfinite(error) || !sole(y)) {
            take(screen, row, row.targeted, scratch);
            return row.targeted;
        }
        double plain = 0;
        for (Index i = 0; i < k(); ++i)
            plain += scratch.candidates[i].distance;
        for (S bound = next(2);;) {
            take(screen, row, bound, scratch);
            solver.set_query(y, scratch.candidates);
            const NeighborSet set = solver.targeted();
            const double excess = set.feasible
                                      ? scaled(set.cost - plain) + 2 * (error + k() * row.slack)
                                      : std::numeric_limits<double>::infinity();
            Index most = 0;
            double more = 0; ///< what m points of the class cost above the farthest
                             ///< of the nearest
            while (most < k() && more <= excess) {
                more += static_cast<double>(row.own[most]) -
                        static_cast<double>(row.nearest[k() - 1 - most]);
                most += more <= excess ? 1 : 0;
            }
            if (!(next(most) > bound))
                return bound;
            bound = next(most);
        }
    }

    /// Whether only the right answer costs nothing.
    bool sole(Index y) const {
        for (Index r = 0; problem_.options.loss.matrix != nullptr && r < classes(); ++r)
            if (r != y && problem_.options.loss(y, r) == 0)
                return false;
        return true;
    }

    /// Exact distances where they matter, and inference. False: the search was
    /// too narrow.
    template <class S>
    bool solve(SetSolver &solver, const ScreenedDatabase<S> &screen, double error, Row<S> &row,
               Index id, Scratch &scratch) const {
        const S everything = std::numeric_limits<S>::infinity();
        scratch.query.resize(static_cast<std::size_t>(database_.cols()));
        queries_.read_row(id, scratch.query.data());
        scratch.candidates.clear();
        if (problem_.options.greedy || static_cast<Index>(row.nearest.size()) < k()) {
            take(screen, row, everything, scratch);
        } else {
            take(screen, row, above<S>(row.nearest.back()), scratch);
            solver.set_query(problem_.query_labels[id], scratch.candidates);
            const double plain = solver.plain().delta;
            S bound = -everything;
            if (problem_.targeted.wanted() && plain != 0)
                bound = take_targeted(solver, screen, error, row, id, scratch);
            if (problem_.augmented.wanted())
                bound = std::max(bound, augmented_reach<S>(row, error, id, plain));
            if (bound > row.narrowest)
                return false;
            take(screen, row, bound, scratch);
        }
        problem_.solve(solver, id, scratch.candidates);
        return true;
    }

    const Points &queries_;
    const Points &database_;
    const InferenceProblem &problem_;
    Frame frame_;
    std::vector<std::int64_t> order_;
    std::vector<Index> starts_;
    ClassMeans means_;
};

METRICFAST_NAMESPACE_END
