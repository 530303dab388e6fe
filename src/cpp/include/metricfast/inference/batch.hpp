/// Targeted and loss-augmented inference for many queries against a database, without an n x m
/// matrix.
///
/// The database is sorted by class, and one sweep over it finds every point that may be in a set.
/// These are at most the k nearest points of each class, and only those within the bounds of
/// SetBounds. The classes that a targeted vote may choose are searched first and without bounds,
/// then the others from near to far. The bound of augmented sets is known only at the end. Until
/// then, it is estimated from the points found so far, with a margin; if the estimate was too
/// small, the search is repeated.
#pragma once

#include <optional>

#include "metricfast/inference/bounds.hpp"
#include "metricfast/search/cascade.hpp"
#include "metricfast/search/class_means.hpp"
#include "metricfast/search/copies.hpp"
#include "metricfast/search/ranking.hpp"
#include "metricfast/search/sweep.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Inference from embedded points: for Euclidean distances, or for those of points of length 1,
/// whose squares are twice the distances of the metric `cosine`.
class InferenceSearch {
  public:
    InferenceSearch(const Points &queries, const Points &database, const InferenceProblem &problem,
                    Metric metric = Metric::euclidean)
        : database_(database), space_(std::make_shared<const Space>(database, metric)),
          queries_(std::make_shared<const Queries>(*space_, queries, Control())),
          frame_(space_->frame_with(queries_->images())) {
        require(queries.cols() == database.cols(),
                "inference: queries and database differ in width");
        require(metric != Metric::inner_product,
                "inference: the metric must be euclidean or cosine");
        require(database.rows() <= std::numeric_limits<std::int32_t>::max() / 2,
                "inference: the database has more than 2^30 points");
        problem.check(queries.rows(), database.rows());
        numbers_ = ClassNumbers(problem.query_labels, problem.database_labels);
        problem_ = detail::numbered(problem, numbers_);
        // Sums of k distances must not overflow, nor the costs of votes in the same unit.
        frame_.exact_scale = std::min(std::ldexp(frame_.exact_scale, -12), largest_scale());
        order_ = order_by_label(problem_.database_labels, classes(), &starts_);
        for (std::size_t s = 0; s < starts_.size(); ++s)
            sizes_.push_back((s + 1 < starts_.size() ? starts_[s + 1] : database.rows()) -
                             starts_[s]);
        means_ = ClassMeans(space_->images(), frame_, problem_.database_labels, classes());
    }

    void run(const Control &control) const { run(control, identity_order(queries_->rows())); }

    /// Solves the problem for some of the queries.
    void run(const Control &control, std::vector<std::int64_t> queries) const {
        CascadeMemory memory;
        memory.ids = std::move(queries);
        // The images of zeros are arbitrary.
        const auto zeros = std::partition(memory.ids.begin(), memory.ids.end(),
                                          [&](std::int64_t id) { return !queries_->is_zero(id); });
        exhaustive({zeros, memory.ids.end()}, control.silent());
        memory.ids.erase(zeros, memory.ids.end());
        by_class(memory.ids);
        Cascade cascade(control, memory);
        screened<float>({1, 4, endless}, cascade);
        if (cascade.done())
            return;
        // From here on, one point represents its duplicates in a class, which do not fill lists.
        InferenceSearch distinct(*this);
        distinct.copies_ = Copies(database_, distinct.order_, distinct.starts_, cascade.control());
        distinct.screened<double>({endless}, cascade);
        distinct.exhaustive(cascade.ids(), cascade.control());
    }

  private:
    template <class S> using List = CandidateList<S>;
    template <class S> using Entry = typename CandidateList<S>::Entry;

    static constexpr double endless = std::numeric_limits<double>::infinity();

    Index k() const { return problem_.options.k; }
    /// The maximum number of neighbours of one class that a query may need.
    Index longest_list() const { return std::max<Index>(1, std::min(k(), database_.rows())); }
    Index classes() const { return problem_.options.loss.classes; }
    double unit() const { return frame_.exact_scale * frame_.exact_scale; }
    /// The largest scale at which costs of votes are finite in the unit of squared distances.
    double largest_scale() const {
        double most = 1;
        for (const double cost : problem_.options.loss.matrix)
            most = std::max(most, cost);
        return std::ldexp(1.0, 500) / detail::power_of_two_above(std::sqrt(most));
    }
    /// These ties may need more points of a class than its k nearest.
    bool by_nearest() const { return problem_.options.ties == Ties::nearest; }
    Candidate candidate(std::int64_t row, double distance = 0) const {
        return {distance, row, static_cast<std::int32_t>(problem_.database_labels[row])};
    }

    /// State of one query during a sweep.
    template <class S> struct Row {
        const VoteTask *task = nullptr;
        SetBounds<S> bounds;
        List<S> list;                ///< of the current class
        std::vector<Entry<S>> right; ///< points of classes that a targeted vote may choose
        std::vector<Entry<S>> other;
        S limit;         ///< limit of further searches
        S earlier_limit; ///< limit of an earlier sweep
        S narrowest;     ///< smallest limit of all classes
        double slack;
        bool failed; ///< a list overflowed

        void reset(const VoteTask &of, double row_slack) {
            task = &of;
            bounds.reset(of);
            right.clear();
            other.clear();
            limit = earlier_limit = narrowest = std::numeric_limits<S>::infinity();
            slack = row_slack;
            failed = false;
        }
    };

    /// Reusable memory for the candidates of a query.
    struct Scratch {
        std::vector<double> query;
        std::vector<Candidate> candidates;
    };

    /// A search of a cascade. A query is crowded if the margin was too small, or a list overflowed.
    template <class S> struct Screen {
        struct Memory {
            Sweep<S> sweep;
            std::vector<Row<S>> rows;
            std::vector<Index> votes; ///< zeros, one per class
            std::vector<S> uppers;
            std::vector<char> first; ///< classes that are searched first
            std::optional<SetSolver> solver;
            Scratch scratch;
        };

        const InferenceSearch &search;
        const ScreenedDatabase<S> &points;
        double error;                 ///< error of the sum of k bounds, without the query's part
        double margin;                ///< margin of the estimated bound; infinite for no bound
        std::vector<char> &overflown; ///< queries with an overflowing list, written

        SearchPanels panels() const { return {points.packed(), true, false}; }
        Index bytes() const {
            return sweep_bytes<S>(search.database_.cols(), search.longest_list());
        }
        template <class Emit>
        void run(const std::int64_t *ids, Index count, Index, Index, char *crowded, Memory &m,
                 const Emit &) const {
            search.search_block<S>(*this, ids, count, crowded, m);
        }
    };

    /// Sweeps with increasing margins. Queries that no sweep could answer remain.
    template <class S> void screened(const std::vector<double> &margins, Cascade &cascade) const {
        if (cascade.done())
            return;
        const ScreenedDatabase<S> points(*space_, frame_, order_, starts_, cascade.control());
        const double error = static_cast<double>(k()) * points.most_slack();
        std::vector<char> overflown(static_cast<std::size_t>(queries_->rows()), 0);
        std::vector<typename Screen<S>::Memory> memories;
        std::vector<std::int64_t> &ids = cascade.ids(), crowded;
        for (const double margin : margins) {
            cascade.stage(
                Screen<S>{*this, points, margin < endless ? error : endless, margin, overflown},
                static_cast<double>(database_.cols()), memories, [](std::vector<Neighbor> &) {},
                [](Index, Index, const std::vector<Neighbor> &) {});
            // A list that overflowed does so with larger margins, too.
            const auto wider = std::partition(ids.begin(), ids.end(), [&](std::int64_t id) {
                return overflown[static_cast<std::size_t>(id)] == 0;
            });
            crowded.insert(crowded.end(), wider, ids.end());
            ids.erase(wider, ids.end());
            by_class(ids);
        }
        ids.insert(ids.end(), crowded.begin(), crowded.end());
        by_class(ids);
    }

    /// Sorts queries by class, as searches require.
    void by_class(std::vector<std::int64_t> &ids) const {
        std::sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) {
            const auto y = problem_.query_labels[a], z = problem_.query_labels[b];
            return y < z || (y == z && a < b);
        });
    }

    /// Returns a filter of the rows that a query may find. The return type is deduced, so the
    /// definition precedes its uses.
    auto allowed(std::int64_t id) const {
        return [out = problem_.excluded(static_cast<Index>(id))](std::int64_t row) {
            return row != out;
        };
    }

    template <class S>
    void search_block(const Screen<S> &screen, const std::int64_t *ids, Index count, char *crowded,
                      typename Screen<S>::Memory &m) const {
        const auto &packed = screen.points.packed();
        auto &rows = m.rows;
        m.sweep.begin(screen.points, queries_->images(), frame_, ids, 0, count);
        m.votes.assign(static_cast<std::size_t>(classes()), 0);
        if (static_cast<Index>(rows.size()) < count)
            rows.resize(static_cast<std::size_t>(count));
        const auto tasks = tasks_of(ids, count);
        for (Index i = 0, t = 0; i < count; ++i) {
            while (tasks[t].y != problem_.query_labels[ids[i]])
                ++t;
            rows[i].reset(tasks[t], m.sweep.slack(i));
        }
        const auto sweep_class = [&](Index s, bool again) {
            m.sweep.close();
            for (Index i = 0; i < count; ++i)
                if (!rows[i].failed) {
                    rows[i].list.reset(longest_list(), rows[i].slack, limits<S>(rows[i], s, again));
                    m.sweep.threshold(i) = rows[i].list.threshold();
                }
            const Index begin = packed.segment_begin(s), end = packed.segment_end(s);
            m.sweep.run(begin, end, [&](Index i, Index position, S lower) {
                const Index copies = copies_.count(packed.id(position), allowed(ids[i]), k());
                if (copies == 0)
                    return;
                rows[i].list.add(lower, screen.points.slack(position), position, copies);
                m.sweep.threshold(i) = rows[i].list.threshold();
            });
            for (Index i = 0; i < count; ++i)
                if (!rows[i].failed)
                    finish_class<S>(screen, rows[i], s, again, m);
        };
        m.first.assign(static_cast<std::size_t>(classes()), 0);
        for (const VoteTask &task : tasks)
            for (Index s = 0; s < classes(); ++s)
                if (task.right(s))
                    m.first[s] = 1;
        for (Index s = 0; s < classes(); ++s)
            if (m.first[s])
                sweep_class(s, false);
        for (Index i = 0; by_nearest() && i < count; ++i) {
            rows[i].earlier_limit = rows[i].limit;
            rows[i].limit = std::numeric_limits<S>::infinity();
            rows[i].bounds.forget_points();
            rows[i].right.clear();
            rows[i].other.clear();
        }
        for (const Index s : means_.near_to_far(queries_->images(), ids, count))
            if (!m.first[s] || by_nearest())
                sweep_class(s, by_nearest());
        if (!m.solver)
            m.solver.emplace(problem_.options, unit());
        for (Index i = 0; i < count; ++i) {
            const auto id = static_cast<Index>(ids[i]);
            screen.overflown[static_cast<std::size_t>(id)] = rows[i].failed;
            crowded[i] = rows[i].failed || !solve<S>(screen, *m.solver, rows[i], id, m.scratch);
        }
    }

    /// The range of classes of some queries, which are sorted by class.
    std::vector<VoteTask> tasks_of(const std::int64_t *ids, Index count) const {
        std::vector<VoteTask> tasks;
        for (Index i = 0; i < count; ++i)
            if (tasks.empty() || tasks.back().y != problem_.query_labels[ids[i]])
                tasks.emplace_back(problem_, problem_.query_labels[ids[i]], sizes_, frame_.scale);
        return tasks;
    }

    /// Bounds of the distances of a query's candidates in the current class.
    template <class S> typename List<S>::Limits limits(Row<S> &row, Index s, bool again) const {
        typename List<S>::Limits result;
        if (!again && row.task->right(s))
            return result;
        result.limit = std::min(row.earlier_limit, row.limit);
        if (again) {
            result.floor = row.bounds.winners();
            result.extra = row.task->augmented ? row.task->largest() : 0.0;
            result.crowd = 16;
        }
        return result;
    }

    template <class S> S limit(const Screen<S> &screen, const Row<S> &row) const {
        if (problem_.options.greedy)
            return std::numeric_limits<S>::infinity();
        return std::max(row.bounds.nearest(), wanted<S>(screen, row, row.task->targeted,
                                                        row.task->augmented, screen.margin));
    }

    /// Upper bound of the distances of set members, except for members of right classes.
    template <class S>
    S wanted(const Screen<S> &screen, const Row<S> &row, bool targeted, bool augmented,
             double margin = 0) const {
        S result = -std::numeric_limits<S>::infinity();
        if (targeted)
            result = by_nearest() ? row.bounds.winners() : row.bounds.targeted();
        if (augmented)
            result = std::max(
                result,
                row.bounds.augmented(screen.error + static_cast<double>(k()) * row.slack, margin));
        return result;
    }

    template <class S>
    void finish_class(const Screen<S> &screen, Row<S> &row, Index s, bool again,
                      typename Screen<S>::Memory &memory) const {
        row.list.tighten();
        if (row.list.overflown()) {
            row.failed = true;
            return;
        }
        if (row.list.limited())
            row.narrowest = std::min(row.narrowest, row.list.threshold());
        if (row.list.entries().empty())
            return;
        const bool right = row.task->right(s);
        row.list.copy_uppers(memory.uppers);
        row.bounds.add(s, memory.uppers, memory.votes);
        if (right && !again)
            row.bounds.add_winner(memory.uppers);
        row.limit = limit<S>(screen, row);
        auto &entries = right ? row.right : row.other;
        entries.insert(entries.end(), row.list.entries().begin(), row.list.entries().end());
    }

    /// Moves the entries below `bound` to the candidates, with exact distances.
    template <class S>
    void move_candidates(const Screen<S> &screen, Index id, std::vector<Entry<S>> &entries, S bound,
                         Scratch &scratch) const {
        const auto beyond = std::partition(entries.begin(), entries.end(),
                                           [&](const Entry<S> &e) { return !(e.lower < bound); });
        if (beyond == entries.end())
            return;
        const std::size_t old = scratch.candidates.size();
        for (auto e = beyond; e != entries.end(); ++e)
            scratch.candidates.push_back(
                candidate(copies_.first(screen.points.packed().id(e->position), allowed(id))));
        entries.erase(beyond, entries.end());
        measure(id, old, scratch);
    }

    /// Sets exact distances of the candidates from `old` on, and adds their copies.
    void measure(Index id, std::size_t old, Scratch &scratch) const {
        auto &candidates = scratch.candidates;
        settle(*queries_, id, scratch.query.data(), *space_, frame_.exact_scale,
               candidates.data() + old, candidates.size() - old);
        for (std::size_t i = old; i < candidates.size() && !space_->euclidean(); ++i)
            candidates[i].distance *= 2 * unit();
        copies_.expand(candidates, old, allowed(id), by_nearest() ? database_.rows() : k());
    }

    /// Computes every distance, for queries with too many (nearly) equal neighbours.
    void exhaustive(const std::vector<std::int64_t> &ids, const Control &control) const {
        parallel_blocks(static_cast<Index>(ids.size()), control, [&](Index b, Worker &) {
            const Index id = static_cast<Index>(ids[b]);
            Scratch scratch;
            queries_->read(id, scratch.query);
            auto &candidates = scratch.candidates;
            for (std::size_t s = 0; s < starts_.size(); ++s) {
                const std::size_t old = candidates.size();
                const auto end =
                    s + 1 < starts_.size() ? order_.begin() + starts_[s + 1] : order_.end();
                for (auto group = order_.begin() + starts_[s]; group != end; ++group) {
                    const std::int64_t first = copies_.first(*group, allowed(id));
                    if (first >= 0)
                        candidates.push_back(candidate(first));
                }
                measure(id, old, scratch);
                if (!by_nearest())
                    keep_nearest(candidates, old);
            }
            std::sort(candidates.begin(), candidates.end());
            SetSolver solver(problem_.options, unit());
            solve_query(problem_, solver, id, candidates);
        });
    }

    /// Keeps only the k nearest of the candidates from `old` on, which have one class.
    void keep_nearest(std::vector<Candidate> &candidates, std::size_t old) const {
        if (static_cast<Index>(candidates.size() - old) <= k())
            return;
        const auto first = candidates.begin() + static_cast<Index>(old);
        std::nth_element(first, first + k(), candidates.end());
        candidates.resize(old + static_cast<std::size_t>(k()));
    }

    /// Computes exact distances of candidates, and the inference. False: the search was too narrow.
    template <class S>
    bool solve(const Screen<S> &screen, SetSolver &solver, Row<S> &row, Index id,
               Scratch &scratch) const {
        queries_->read(id, scratch.query);
        auto &candidates = scratch.candidates;
        candidates.clear();
        const auto add_below = [&](S of_right, S of_other) {
            move_candidates(screen, id, row.right, of_right, scratch);
            move_candidates(screen, id, row.other, of_other, scratch);
            std::sort(candidates.begin(), candidates.end());
        };
        constexpr S everything = std::numeric_limits<S>::infinity();
        if (problem_.options.greedy) {
            add_below(everything, everything);
        } else {
            add_below(row.bounds.nearest(), row.bounds.nearest());
            solver.set_query(row.task->y, candidates);
            const double plain = solver.plain().delta;
            const bool targeted = row.task->targeted && plain != 0;
            const bool augmented =
                row.task->augmented && plain < row.task->loss.largest(row.task->y);
            const S bound = wanted<S>(screen, row, targeted, augmented);
            if (bound > row.narrowest)
                return false;
            if (targeted || augmented)
                add_below(everything, bound);
        }
        solve_query(problem_, solver, id, candidates);
        return true;
    }

    Points database_;
    std::shared_ptr<const Space> space_;
    std::shared_ptr<const Queries> queries_;
    ClassNumbers numbers_;
    InferenceProblem problem_; ///< of these numbers
    Frame frame_;
    std::vector<std::int64_t> order_;
    std::vector<Index> starts_;
    std::vector<Index> sizes_; ///< sizes of the classes
    Copies copies_;
    ClassMeans means_;
};

METRICFAST_NAMESPACE_END
