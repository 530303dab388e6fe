/// Ranks of the points of a query's class among all points, by counting.
///
/// The points of a query's class are sorted by bounds, which are computed in double and rounded to
/// float. Other points are counted by the number h of points of the class that precede them. The
/// range of the bounds is divided into buckets, and a table has the h of each bucket. In a bucket
/// near points of the class, h is searched for from there on, and where bounds do not decide, exact
/// distances do. The i-th nearest point of the class has the rank i plus the number of others with
/// h < i.
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
    /// \param lower a bound for each position. The bound of an excluded row is set to infinity.
    /// \param begin, end the positions of the query's class.
    RankSummary run(Index query, float *lower, double norm, Index begin, Index end) {
        const auto &packed = screen_.packed();
        RankSummary result;
        std::size_t n = 0;
        excluded_ = filter_.exclude != nullptr ? filter_.exclude[query] : -1;
        if (excluded_ >= 0) // then it is in the last bucket, or near members
            lower[places_[excluded_]] = std::numeric_limits<float>::infinity();
        members_.resize(static_cast<std::size_t>(end - begin));
        for (Index p = begin; p < end; ++p) {
            members_[n] = {lower[p], static_cast<std::int32_t>(packed.id(p))};
            n += filter_(query, packed.id(p)) ? 1 : 0;
        }
        members_.resize(n);
        if (n == 0)
            return result;
        width_ = above<float>(1.01 * (screen_.most_slack() + 2 * screen_.error() * norm));
        arrange();
        unsure_.clear();
        count(query, lower, 0, begin);
        count(query, lower, end, space_.points().rows());
        decide(query);
        return summary();
    }

  private:
    struct Member {
        float lower;
        std::int32_t row;
        friend bool operator<(const Member &a, const Member &b) { return a.lower < b.lower; }
    };
    struct Unsure {
        std::int32_t row, first, last; ///< members that may precede the point or follow it
    };

    /// Members whose order is exact: the first, and their part of exact_.
    struct Run {
        std::size_t member, begin, end;
    };

    std::size_t size() const { return members_.size(); }
    /// Ascends with x. Buckets before and behind those of members are the first and the last one.
    std::int32_t bucket(float x) const {
        return static_cast<std::int32_t>(
            std::max(0.0f, std::min((x - lowest_) * per_unit_ + 1, last_bucket_)));
    }
    /// Points whose bounds differ by more from x are surely nearer, or farther.
    float width(float x) const {
        return width_ + 4 * std::numeric_limits<float>::epsilon() * std::abs(x);
    }

    /// Sorts the members by their bounds, and sets the table of buckets.
    void arrange() {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        bounds_.assign(size() + window, infinity);
        for (std::size_t i = 0; i < size(); ++i)
            bounds_[i] = members_[i].lower;
        const Eigen::Map<const Eigen::ArrayXf> bounds(bounds_.data(), static_cast<Index>(size()));
        std::size_t buckets = 64;
        while (buckets < together * size() && buckets < (std::size_t(1) << 16))
            buckets *= 2;
        lowest_ = bounds.minCoeff();
        last_bucket_ = static_cast<float>(buckets - 1);
        per_unit_ = (last_bucket_ - 2) / (bounds.maxCoeff() - lowest_);
        if (!std::isfinite(per_unit_))
            per_unit_ = 0;
        first_.resize(size());
        last_.resize(size());
        for (std::size_t i = 0; i < size(); ++i)
            first_[i] = bucket(bounds_[i]) / static_cast<std::int32_t>(together);
        starts_.assign(buckets / together + 2, 0);
        for (const std::int32_t group : first_)
            ++starts_[static_cast<std::size_t>(group) + 2];
        std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
        sorted_.resize(size());
        for (std::size_t i = 0; i < size(); ++i) // then, starts_[g] is the start of group g
            sorted_[static_cast<std::size_t>(starts_[static_cast<std::size_t>(first_[i]) + 1]++)] =
                members_[i];
        members_.swap(sorted_);
        for (std::size_t g = 0; g + 2 < starts_.size(); ++g)
            if (starts_[g + 1] - starts_[g] > 1)
                std::sort(members_.begin() + starts_[g], members_.begin() + starts_[g + 1]);
        for (std::size_t i = 0; i < size(); ++i) {
            const float x = bounds_[i] = members_[i].lower, apart = 1.01f * width(x);
            first_[i] = bucket(x - apart);
            last_[i] = bucket(x + apart);
        }
        table_.resize(buckets + 2 * spread);
        std::int32_t *const table = table_.data();
        std::int32_t done = 0;
        const auto fill = [&](std::int32_t end, std::int32_t value) { // and some beyond the end
            for (std::int32_t b = done; b < end; b += spread)
                std::fill_n(table + b, spread, value);
            done = std::max(done, end);
        };
        for (std::size_t i = 0; i < size(); ++i) {
            fill(first_[i], static_cast<std::int32_t>(i));
            fill(last_[i] + 1, near | static_cast<std::int32_t>(i));
        }
        std::fill(table + done, table + table_.size(), static_cast<std::int32_t>(size()));
        if (per_unit_ == 0) // NaN for infinite bounds
            table_[0] = near;
        const std::int32_t beyond = table[buckets - 1];
        for (std::int32_t j = 0; j < spread; ++j)
            table_[buckets + static_cast<std::size_t>(j)] = beyond + (beyond < 0 ? 0 : j);
        counts_.assign(size() + spread, 0);
    }

    /// Counts the points at the positions [begin, end), none of which is of the query's class.
    void count(Index query, const float *lower, Index begin, Index end) {
        const auto &packed = screen_.packed();
        const auto last = static_cast<std::int32_t>(last_bucket_);
        const std::int32_t *const table = table_.data();
        std::int32_t *const counts = counts_.data();
        constexpr Index chunk = 512;
        std::int32_t buckets[chunk], nears[chunk];
        for (Index from = begin; from < end; from += chunk) {
            const Index size = std::min(chunk, end - from);
            const float *const x = lower + from;
            for (Index i = 0; i < size; ++i) {
                const std::int32_t in = bucket(x[i]); // most points may be in the last one
                buckets[i] = in == last ? last + 1 + static_cast<std::int32_t>(i) % spread : in;
            }
            for (Index i = 0; filter_.several() && i < size; ++i)
                if (!filter_(query, packed.id(from + i)))
                    buckets[i] = last + 1 + spread;
            Index n_near = 0;
            for (Index i = 0; i < size; ++i) {
                const std::int32_t before = table[buckets[i]];
                ++counts[before & ~near];
                nears[n_near] = static_cast<std::int32_t>(i);
                n_near += before < 0 ? 1 : 0;
            }
            for (Index n = 0; n < n_near; ++n) {
                const Index i = nears[n];
                const std::int32_t start = table[buckets[i]] & ~near;
                --counts[start];
                if (packed.id(from + i) != excluded_)
                    place(packed.id(from + i), x[i], start);
            }
        }
    }

    /// Counts a point near members, or leaves it to decide().
    /// \param start the number of members before its bucket.
    void place(std::int64_t row, float x, std::int32_t start) {
        const float nearer = x - width(x), farther = x + width(x);
        const auto some = Vec<float>::load(bounds_.data() + start);
        const unsigned before = less(some, Vec<float>::broadcast(nearer));
        const unsigned after = less(Vec<float>::broadcast(farther), some);
        constexpr unsigned last = 1u << (window - 1);
        if ((before | after) == (last << 1) - 1 && (after & last) != 0) {
            ++counts_[static_cast<std::size_t>(start + set_bits(before))];
            return;
        }
        const auto members = bounds_.begin(), end = members + static_cast<Index>(size());
        const auto from = std::lower_bound(members, end, nearer);
        const auto to = std::upper_bound(from, end, farther);
        unsure_.push_back({static_cast<std::int32_t>(row),
                           static_cast<std::int32_t>(from - members),
                           static_cast<std::int32_t>(to - members)});
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

    RankSummary summary() {
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
    static constexpr int window = Vec<float>::width;
    /// Buckets of a group, which has a member on average.
    static constexpr std::size_t together = 8;
    /// The last bucket has so many counts, because it may have most points.
    static constexpr std::int32_t spread = 16;
    /// In the table, the bit of a bucket near members.
    static constexpr std::int32_t near = std::numeric_limits<std::int32_t>::min();
    std::int64_t excluded_ = -1;
    float lowest_ = 0, per_unit_ = 0, last_bucket_ = 0;
    float width_ = 0; ///< bounds in double that differ by more decide
    std::vector<Member> members_, sorted_;
    std::vector<float> bounds_;              ///< of the members, and several inf
    std::vector<std::int32_t> starts_;       ///< the first member of each group of buckets
    std::vector<std::int32_t> first_, last_; ///< the buckets near each member
    std::vector<std::int32_t> table_;        ///< the number of members before each bucket
    std::vector<std::int32_t> counts_;       ///< by the number of members before
    std::vector<std::int32_t> needed_, run_of_;
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
        AlignedVector<float> lower;
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
                std::fill_n(m.lower.data() + i * positions, positions, 0.0f);
            const auto own = static_cast<std::size_t>(classes.queries[query]);
            out[query] = m.ranks->run(query, m.lower.data() + i * positions, m.packed.norm(i),
                                      starts[own], starts[own + 1]);
        }
    });
}

METRICFAST_NAMESPACE_END
