/// Ranks of the points of a query's class among all points, by counting.
///
/// The points of a query's class are sorted by bounds in double. Each other point is counted by
/// the number h of points of the class that precede it. If c_h points have the number h, the i-th
/// nearest point of the class has the rank i + c_0 + ... + c_{i - 1}. Exact distances decide where
/// bounds do not.
#pragma once

#include <algorithm>

#include "metricfast/core/class_numbers.hpp"
#include "metricfast/search/database.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The ranking of one query after another.
class ClassRanks {
  public:
    /// \param screen of `space`, sorted by class, in one segment.
    /// \param places the position of each row.
    ClassRanks(const Space &space, const Frame &frame, const ScreenedDatabase<double> &screen,
               const std::vector<Index> &places, const Queries &queries, const Filter &filter)
        : space_(space), frame_(frame), screen_(screen), places_(places), queries_(queries),
          filter_(filter) {}

    /// Returns the statistics of a query's ranking.
    /// \param lower a bound for each position.
    /// \param begin, end the positions of the query's class.
    RankSummary run(Index query, const double *lower, double norm, Index begin, Index end) {
        const auto &packed = screen_.packed();
        RankSummary result;
        members_.clear();
        for (Index p = begin; p < end; ++p)
            if (filter_(query, packed.id(p)))
                members_.push_back({lower[p], static_cast<std::int32_t>(packed.id(p))});
        if (members_.empty())
            return result;
        width_ = 1.01 * (screen_.most_slack() + 2 * screen_.error() * norm);
        arrange();
        counts_.assign(members_.size() + 2, 0); // the last one is not a rank
        unsure_.clear();
        Index first = end, last = space_.points().rows(); // without the one that is excluded
        if (!filter_.several() && filter_.exclude != nullptr && filter_.exclude[query] >= 0) {
            const Index out = places_[filter_.exclude[query]];
            if (out < begin) {
                count(query, lower, 0, out);
                count(query, lower, out + 1, begin);
                begin = 0;
            } else if (out >= end) {
                count(query, lower, end, out);
                first = out + 1;
            }
        }
        count(query, lower, 0, begin);
        count(query, lower, first, last);
        decide(query);
        return summary();
    }

  private:
    struct Member {
        double lower;
        std::int32_t row;
    };
    struct Unsure {
        std::int32_t row, first, last; ///< members that may precede the point or follow it
    };

    /// Members whose order is exact: the first, and their part of exact_.
    struct Run {
        std::size_t member, begin, end;
    };

    std::size_t size() const { return members_.size(); }
    /// Ascends with x. The first and the last bucket are not near any member, as a rule.
    std::int32_t bucket(double x) const {
        const double at = (x - lowest_) * per_unit_ + 2;
        return static_cast<std::int32_t>(std::max(0.0, std::min(at, last_bucket_)));
    }

    /// The number of a bucket near several members.
    static constexpr std::int32_t general = std::numeric_limits<std::int32_t>::min();
    /// Buckets are in groups.
    static constexpr std::size_t together = 16;
    static std::size_t group(std::int32_t bucket) {
        return static_cast<std::size_t>(bucket) / together;
    }

    /// Sorts the members by their bounds, and indexes them by buckets of bounds.
    void arrange() {
        const auto [low, high] =
            std::minmax_element(members_.begin(), members_.end(),
                                [](const Member &a, const Member &b) { return a.lower < b.lower; });
        lowest_ = low->lower;
        highest_ = high->lower;
        std::size_t buckets = 64;
        while (buckets < 16 * size() && buckets < (std::size_t(1) << 17))
            buckets *= 2;
        last_bucket_ = static_cast<double>(buckets - 1);
        const double span = highest_ - lowest_;
        per_unit_ = span > 0 && std::isfinite(last_bucket_ / span) ? (last_bucket_ - 4) / span : 0;
        // Sorted by groups of buckets, then by the bounds.
        const std::size_t groups = buckets / together;
        starts_.assign(groups + 2, 0);
        for (const Member &m : members_)
            ++starts_[group(bucket(m.lower)) + 2];
        for (std::size_t g = 2; g < groups + 2; ++g)
            starts_[g] += starts_[g - 1];
        sorted_.resize(size());
        for (const Member &m : members_) // then, starts_[g + 1] is the end of group g
            sorted_[static_cast<std::size_t>(starts_[group(bucket(m.lower)) + 1]++)] = m;
        members_.swap(sorted_);
        const auto nearer = [](const Member &x, const Member &y) { return x.lower < y.lower; };
        for (std::size_t g = 0; g < groups; ++g)
            if (starts_[g + 1] - starts_[g] > 1)
                std::sort(members_.begin() + starts_[g], members_.begin() + starts_[g + 1], nearer);
        // Buckets near no member decide for all of their points, those near one by its bound.
        before_.resize(buckets);
        const double apart = 1.01 * width_;
        auto next = before_.begin();
        for (std::size_t i = 0; i < size(); ++i) {
            const auto near = before_.begin() + bucket(members_[i].lower - apart);
            const auto end = before_.begin() + bucket(members_[i].lower + apart) + 1;
            if (near > next)
                next = std::fill_n(next, near - next, static_cast<std::int32_t>(i));
            std::fill(near, std::max(near, std::min(next, end)), general);
            if (end > next)
                next = std::fill_n(next, end - next, -1 - static_cast<std::int32_t>(i));
        }
        std::fill(next, before_.end(), static_cast<std::int32_t>(size()));
        if (per_unit_ == 0) // NaN for infinite bounds, in the first bucket
            before_[0] = general;
        bounds_.resize(size() + 2);
        bounds_.front() = -std::numeric_limits<double>::infinity();
        bounds_.back() = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < size(); ++i)
            bounds_[i + 1] = members_[i].lower;
    }

    /// Counts the points at the positions [begin, end), none of which is of the query's class.
    void count(Index query, const double *lower, Index begin, Index end) {
        const auto &packed = screen_.packed();
        const bool several = filter_.several();
        constexpr Index chunk = 512;
        std::int32_t buckets[chunk], near[chunk];
        for (Index first = begin; first < end; first += chunk) {
            const Index size = std::min(chunk, end - first);
            const double *const x = lower + first;
            for (Index i = 0; i < size; ++i)
                buckets[i] = bucket(x[i]);
            // Most points need no more than their bucket.
            Index unclear = 0;
            const auto trash = static_cast<std::int32_t>(this->size()) + 1;
            for (Index i = 0; i < size; ++i) {
                const std::int32_t before = before_[static_cast<std::size_t>(buckets[i])];
                const bool clear =
                    before >= 0 && (!several || filter_(query, packed.id(first + i)));
                ++counts_[static_cast<std::size_t>(clear ? before : trash)];
                near[unclear] = static_cast<std::int32_t>(i);
                unclear += before < 0 ? 1 : 0;
            }
            for (Index u = 0; u < unclear; ++u) {
                const Index i = near[u];
                const std::int64_t row = packed.id(first + i);
                const std::int32_t member = -1 - before_[static_cast<std::size_t>(buckets[i])];
                if (several && !filter_(query, row))
                    continue;
                if (member < trash) {
                    const double apart = x[i] - members_[static_cast<std::size_t>(member)].lower;
                    if (std::abs(apart) > 1.01 * width_) {
                        ++counts_[static_cast<std::size_t>(member + (apart > 0 ? 1 : 0))];
                        continue;
                    }
                }
                place(row, x[i], buckets[i]);
            }
        }
    }

    /// Counts a point in a bucket near several members, or leaves it to decide().
    void place(std::int64_t row, double x, std::int32_t in) {
        if (!(x <= highest_ + width_)) // follows all members, or padding
            return;
        const auto members = bounds_.begin() + 1;
        const auto before =
            std::lower_bound(members + starts_[group(in)], members + starts_[group(in) + 1], x) -
            members;
        const auto at = static_cast<std::size_t>(before);
        if (bounds_[at] + width_ < x && x + width_ < bounds_[at + 1]) {
            ++counts_[at];
            return;
        }
        const auto from = bounds_.begin() + 1, to = bounds_.end() - 1;
        const auto first =
            std::partition_point(from, to, [&](double member) { return member + width_ < x; });
        const auto last =
            std::partition_point(first, to, [&](double member) { return !(x + width_ < member); });
        unsure_.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(first - from),
                           static_cast<std::int32_t>(last - from)});
    }

    /// Counts the remaining points by exact distances.
    void decide(Index query) {
        if (unsure_.empty())
            return;
        needed_.assign(size() + 1, 0);
        for (const Unsure &u : unsure_) {
            ++needed_[static_cast<std::size_t>(u.first)];
            --needed_[static_cast<std::size_t>(u.last)];
        }
        // Runs of members whose exact distances are needed.
        exact_.clear();
        runs_.clear();
        run_of_.resize(size() + 1);
        std::int32_t open = 0;
        for (std::size_t i = 0; i < size(); ++i) {
            const bool before = open > 0;
            open += needed_[i];
            if (open > 0 && !before)
                runs_.push_back({i, exact_.size(), exact_.size()});
            run_of_[i] = static_cast<std::int32_t>(runs_.size()) - 1;
            if (open > 0) {
                exact_.push_back({0, members_[i].row});
                runs_.back().end = exact_.size();
            }
        }
        const std::size_t known = exact_.size();
        for (const Unsure &u : unsure_)
            exact_.push_back({0, u.row});
        queries_.read(query, row_);
        settle(queries_, query, row_.data(), space_, frame_.exact_scale, exact_.data(),
               exact_.size());
        const auto at = [&](std::size_t i) { return exact_.begin() + static_cast<Index>(i); };
        for (const Run &run : runs_)
            std::sort(at(run.begin), at(run.end));
        for (std::size_t i = 0; i < unsure_.size(); ++i) {
            auto before = static_cast<std::size_t>(unsure_[i].first);
            if (unsure_[i].first < unsure_[i].last) {
                const Run &run = runs_[static_cast<std::size_t>(run_of_[before])];
                before = run.member +
                         static_cast<std::size_t>(
                             std::lower_bound(at(run.begin), at(run.end), exact_[known + i]) -
                             at(run.begin));
            }
            ++counts_[before];
        }
    }

    RankSummary summary() const {
        RankSummary result;
        const auto relevant = static_cast<std::int64_t>(size());
        std::int64_t others = 0;
        double sum = 0;
        for (std::int64_t i = 1; i <= relevant; ++i) {
            others += counts_[static_cast<std::size_t>(i - 1)];
            const std::int64_t rank = i + others;
            sum += static_cast<double>(i) / static_cast<double>(rank);
            if (i == 1)
                result.first = rank;
            if (rank <= relevant) {
                result.hits = i;
                result.precisions_of_hits = sum;
            }
        }
        result.precisions = sum;
        return result;
    }

    const Space &space_;
    const Frame &frame_;
    const ScreenedDatabase<double> &screen_;
    const std::vector<Index> &places_;
    const Queries &queries_;
    const Filter &filter_;
    double lowest_ = 0, highest_ = 0, per_unit_ = 0, last_bucket_ = 0;
    double width_ = 0; ///< bounds that differ by more decide
    std::vector<Member> members_, sorted_;
    std::vector<double> bounds_;       ///< of the members, between -inf and inf
    std::vector<std::int32_t> starts_; ///< the first member of each group of buckets
    std::vector<std::int32_t> before_; ///< members below each bucket; -1 if it does not decide
    std::vector<std::int32_t> counts_, needed_, run_of_;
    std::vector<Run> runs_;
    std::vector<Unsure> unsure_;
    std::vector<Neighbor> exact_;
    std::vector<double> row_;
};

/// Summarises, for each query, the ranks of the points with its label.
/// \param filter the rows that a query may find, which are ranked.
/// \param out one per query, written.
inline void rank_classes(const Points &queries, const Points &points, Codes query_labels,
                         Codes labels, const Filter &filter, Metric metric, Span<RankSummary> out,
                         const Control &control = {}) {
    detail::check_search(queries, points, 1);
    filter.check(queries.rows(), points.rows());
    require(query_labels.size() == queries.rows() && labels.size() == points.rows() &&
                out.size() == queries.rows(),
            "rank_classes: there must be one label and one result for each point");
    const ClassNumbers classes(query_labels, labels);
    std::vector<Index> starts;
    const std::vector<std::int64_t> order =
        order_by_label(classes.database, classes.classes, &starts);
    const Space space(points, metric, control);
    const Queries asked(space, queries, control);
    const Frame frame = space.frame_with(asked.images());
    const ScreenedDatabase<double> screen(space, frame, order, {0}, control);
    starts.push_back(points.rows());
    std::vector<Index> places(order.size());
    for (std::size_t p = 0; p < order.size(); ++p)
        places[order[p]] = static_cast<Index>(p);
    const auto by_class =
        order_by_label(classes.queries, classes.classes, nullptr); // members stay in the cache
    const Index positions = screen.packed().positions(), n = queries.rows();
    constexpr Index rows = PackedQueries<double>::rows;
    const Control how = worth_it(control, static_cast<double>(n * positions) *
                                              static_cast<double>(queries.cols() + 8));
    struct Memory {
        PackedQueries<double> packed;
        std::vector<double> lower;
        std::unique_ptr<ClassRanks> ranks;
    };
    const Index blocks = (n + rows - 1) / rows;
    std::vector<Memory> memories(static_cast<std::size_t>(thread_count(how, blocks)));
    parallel_blocks(blocks, how, [&](Index b, Worker &worker) {
        Memory &m = memories[static_cast<std::size_t>(worker.id())];
        if (!m.ranks) {
            m.ranks = std::make_unique<ClassRanks>(space, frame, screen, places, asked, filter);
            m.lower.resize(static_cast<std::size_t>(rows * positions));
        }
        const Index first = b * rows, count = std::min(rows, n - first);
        m.packed.pack(asked.images(), frame, &by_class[static_cast<std::size_t>(first)], 0, count);
        screen.store(0, screen.packed().panels(), m.packed, m.lower.data());
        for (Index i = 0; i < count; ++i) {
            const auto query = static_cast<Index>(by_class[static_cast<std::size_t>(first + i)]);
            if (asked.is_zero(query)) // the image is not that of the query
                std::fill_n(m.lower.data() + i * positions, positions, 0.0);
            const auto own = static_cast<std::size_t>(classes.queries[query]);
            out[query] = m.ranks->run(query, m.lower.data() + i * positions, m.packed.norm(i),
                                      starts[own], starts[own + 1]);
        }
    });
}

METRICFAST_NAMESPACE_END
