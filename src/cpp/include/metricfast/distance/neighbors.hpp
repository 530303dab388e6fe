/// Exact k nearest neighbours, over the whole database or class by class, without an n x m matrix.
#pragma once

#include <algorithm>

#include "metricfast/distance/copies.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/distance/screen.hpp"
#include "metricfast/simd/smallest.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A neighbour: squared distance in the frame, and database row. Ordered by (D, row).
struct Neighbor {
    double distance;
    std::int64_t index;
    friend bool operator<(const Neighbor &a, const Neighbor &b) {
        return a.distance < b.distance || (a.distance == b.distance && a.index < b.index);
    }
};

/// The candidates of one query in one segment: those whose lower bound does not exceed the k-th
/// smallest upper bound seen.
template <class S> class CandidateList {
  public:
    struct Entry {
        S lower;
        std::int32_t position;
    };

    /// What else bounds the candidates: they are below min(limit, max(floor, k-th upper + extra)).
    struct Reach {
        S limit = std::numeric_limits<S>::infinity();
        S floor = -std::numeric_limits<S>::infinity();
        double extra = 0;
        std::size_t crowd = 1; ///< so many times more candidates than usual are not yet too many
    };

    void reset(Index k, double row_slack, const Reach &reach = {}) {
        k_ = static_cast<std::size_t>(k);
        row_slack_ = row_slack;
        reach_ = reach;
        entries_.clear();
        uppers_.reset(k);
        threshold_ = reach.limit;
        full_ = longest();
        overflown_ = false;
    }

    /// The largest number of entries that may be held at a time.
    static Index capacity(Index k) { return 8 * k + 128; }

    /// Entries below this may still be among the k nearest.
    S threshold() const { return threshold_; }

    /// `slack`: by how much the upper bound exceeds `lower`, without the query's share. `copies`:
    /// how many points there are at the position.
    void add(S lower, double slack, Index position, Index copies) {
        entries_.push_back({lower, static_cast<std::int32_t>(position)});
        const S upper = above<S>(static_cast<double>(lower) + slack + row_slack_);
        do
            uppers_.add(upper);
        while (--copies > 0 && upper < uppers_.last());
        threshold_ = std::min(
            reach_.limit,
            std::max(reach_.floor, above<S>(static_cast<double>(uppers_.last()) + reach_.extra)));
        if (entries_.size() >= full_)
            tighten();
    }

    void tighten() {
        if (overflown_)
            return;
        const S t = threshold_;
        entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                      [t](const Entry &e) { return !(e.lower < t); }),
                       entries_.end());
        full_ = entries_.size() + longest();
        overflown_ = entries_.size() > longest();
        if (overflown_)
            threshold_ = -std::numeric_limits<S>::infinity();
    }

    /// So many entries are too close to call that exact distances of all would cost more than a
    /// search in higher precision.
    bool overflown() const { return overflown_; }
    const std::vector<Entry> &entries() const { return entries_; }
    /// Whether the limit has left out points that are among the k nearest.
    bool limited() const { return threshold_ == reach_.limit; }
    /// The k smallest upper bounds, ascending; fewer where there were fewer candidates.
    void copy_uppers(std::vector<S> &to) const {
        to.assign(uppers_.begin(), std::lower_bound(uppers_.begin(), uppers_.end(), infinity));
    }

  private:
    static constexpr S infinity = std::numeric_limits<S>::infinity();

    std::size_t longest() const { return reach_.crowd * (4 * k_ + 64); }

    std::size_t k_ = 0;
    std::size_t full_ = 0;
    double row_slack_ = 0;
    Reach reach_;
    S threshold_ = 0;
    bool overflown_ = false;
    std::vector<Entry> entries_;
    Smallest<S> uppers_;
};

/// Calls search(ids, count, crowded) for blocks of `ids`, in parallel; returns all that it has
/// added to `crowded`, in order. \param k of the candidate lists that a block holds for each query.
template <class S, class Search>
std::vector<std::int64_t> screened_blocks(const std::vector<std::int64_t> &ids, Index depth,
                                          Index k, const Control &control, Search &&search) {
    const Index n = static_cast<Index>(ids.size());
    const Index rows = TileShape<S>::rows;
    // A block's packed queries share the second-level cache with a panel.
    const Index cached = (Index(1) << 18) / std::max<Index>(1, depth * Index(sizeof(S)));
    const Index listed = (Index(1) << 25) / (CandidateList<S>::capacity(k) *
                                             Index(sizeof(typename CandidateList<S>::Entry)));
    const Index block = std::max<Index>(1, std::min({cached, listed, Index(240)}) / rows) * rows;
    std::vector<std::vector<std::int64_t>> crowded(
        static_cast<std::size_t>((n + block - 1) / block));
    parallel_blocks(static_cast<Index>(crowded.size()), control, [&](Index b, Worker &) {
        const Index first = b * block;
        search(&ids[first], std::min(block, n - first), crowded[b]);
    });
    std::vector<std::int64_t> result;
    for (const auto &part : crowded)
        result.insert(result.end(), part.begin(), part.end());
    return result;
}

/// Sets the exact distances of points to a query, a few at a time so that their sums overlap.
/// \tparam Point has an `index` into the database and a `distance`.
template <class Point>
void set_distances(const double *query, const Points &database, double scale, Point *points,
                   std::size_t size) {
    database.visit([&](auto v) {
        constexpr std::size_t lanes = 4;
        for (std::size_t i = 0; i < size; ++i)
            prefetch(v.row(static_cast<Index>(points[i].index)), v.cols);
        for (std::size_t first = 0; first < size; first += lanes) {
            const std::size_t count = std::min(lanes, size - first);
            const decltype(v.row(0)) rows[lanes] = {
                v.row(static_cast<Index>(points[first].index)),
                v.row(static_cast<Index>(points[first + (count > 1 ? 1 : 0)].index)),
                v.row(static_cast<Index>(points[first + (count > 2 ? 2 : 0)].index)),
                v.row(static_cast<Index>(points[first + (count > 3 ? 3 : 0)].index))};
            double sums[lanes] = {};
            for (Index k = 0; k < v.cols; ++k)
                for (std::size_t l = 0; l < lanes; ++l) {
                    const double d = (query[k] - static_cast<double>(rows[l][k])) * scale;
                    sums[l] += d * d;
                }
            for (std::size_t l = 0; l < count; ++l)
                points[first + l].distance = sums[l];
        }
    });
}

/// k nearest in each segment of an ordered database, exactly; segment s holds the packed positions
/// `order[segments[s]] .. order[segments[s + 1] - 1]`.
class SegmentSearch {
  public:
    /// `exclude`: for each query the database row to leave out, -1 for none; may be null.
    SegmentSearch(const Points &queries, const Points &database, Index k, Codes exclude,
                  std::vector<std::int64_t> order, std::vector<Index> segments)
        : queries_(queries), database_(database), k_(k), exclude_(exclude),
          order_(std::move(order)), segments_(std::move(segments)),
          frame_(Frame::of(database, queries)) {
        require_each(exclude, queries.rows(), "kneighbors: exclude must have one entry a query");
    }

    /// By which the distances of neighbours are multiplied.
    double scale() const { return frame_.fine; }

    /// Told of a query, a segment, and sorted neighbours: k, or fewer where the segment has fewer.
    using Emit = std::function<void(Index, Index, const std::vector<Neighbor> &)>;

    void run(const Control &control, const Emit &emit) const {
        const auto all = identity_order(queries_.rows());
        if (k_ > many && k_ > database_.rows() / 16)
            return exhaustive(all, control, emit);
        const auto crowded = screened<float>(all, control, emit);
        if (crowded.empty())
            return;
        const SegmentSearch distinct = of_distinct_points(quiet(control));
        const auto crowded_still = distinct.screened<double>(crowded, quiet(control), emit);
        distinct.exhaustive(crowded_still, quiet(control), emit);
    }

  private:
    /// Keeping so many candidates in order costs more than computing every distance.
    static constexpr Index many = 256;

    static Control quiet(const Control &control) {
        return {control.threads, control.keep_going, {}};
    }

    /// The same search, in which equal points stand for each other: they crowd no list.
    SegmentSearch of_distinct_points(const Control &control) const {
        SegmentSearch search(*this);
        search.copies_ = Copies(database_, search.order_, search.segments_, control);
        return search;
    }

    std::int64_t excluded(std::int64_t query) const {
        return exclude_ != nullptr ? exclude_[query] : -1;
    }

    /// Searches for `ids` with bounds in S. Returns the queries whose candidates were too many.
    template <class S>
    std::vector<std::int64_t> screened(const std::vector<std::int64_t> &ids, const Control &control,
                                       const Emit &emit) const {
        if (ids.empty())
            return {};
        const ScreenedDatabase<S> screen(database_, frame_, order_, segments_, control);
        return screened_blocks<S>(ids, database_.cols(), k_, control,
                                  [&](const std::int64_t *first, Index count, auto &crowded) {
                                      search_block<S>(screen, first, count, emit, crowded);
                                  });
    }

    template <class S>
    void search_block(const ScreenedDatabase<S> &screen, const std::int64_t *ids, Index count,
                      const Emit &emit, std::vector<std::int64_t> &crowded) const {
        const auto &packed = screen.packed();
        PackedQueries<S> queries(database_.cols());
        queries.pack(queries_, frame_, ids, 0, count);
        const Index padded = queries.micro_panels() * PackedQueries<S>::rows;
        std::vector<S> thresholds(static_cast<std::size_t>(padded));
        std::vector<CandidateList<S>> lists(static_cast<std::size_t>(count));
        std::vector<std::vector<Neighbor>> found(
            static_cast<std::size_t>(count * packed.segments()));
        std::vector<char> failed(static_cast<std::size_t>(count), 0);
        std::vector<double> row(static_cast<std::size_t>(database_.cols()));
        for (Index s = 0; s < packed.segments(); ++s) {
            for (Index i = 0; i < padded; ++i) {
                const bool active = i < count && !failed[i];
                thresholds[i] = (active ? 1 : -1) * std::numeric_limits<S>::infinity();
                if (i < count)
                    lists[i].reset(k_, 2 * screen.error() * queries.norm(i));
            }
            screen.sweep(packed.segment_begin(s), packed.segment_end(s), queries, thresholds.data(),
                         [&](Index i, Index position, S lower) {
                             // A row's threshold may have sunk since its tile was tested.
                             if (!(lower < thresholds[i]))
                                 return;
                             const Index copies =
                                 copies_.count(packed.id(position), excluded(ids[i]), k_);
                             if (copies == 0)
                                 return;
                             lists[i].add(lower, screen.slack(position), position, copies);
                             thresholds[i] = lists[i].threshold();
                         });
            for (Index i = 0; i < count; ++i) {
                if (failed[i])
                    continue;
                lists[i].tighten();
                if (lists[i].overflown()) {
                    failed[i] = 1;
                    continue;
                }
                queries_.read_row(static_cast<Index>(ids[i]), row.data());
                auto &best = found[i * packed.segments() + s];
                for (const auto &entry : lists[i].entries())
                    best.push_back({0, copies_.first(packed.id(entry.position), excluded(ids[i]))});
                rank(row.data(), excluded(ids[i]), best);
            }
        }
        for (Index i = 0; i < count; ++i) {
            if (failed[i]) {
                crowded.push_back(ids[i]);
                continue;
            }
            for (Index s = 0; s < packed.segments(); ++s)
                emit(static_cast<Index>(ids[i]), s, found[i * packed.segments() + s]);
        }
    }

    /// Every distance computed directly: for queries with too many (near-)equal neighbours, and
    /// where most points are asked for.
    void exhaustive(const std::vector<std::int64_t> &ids, const Control &control,
                    const Emit &emit) const {
        parallel_blocks(static_cast<Index>(ids.size()), control, [&](Index b, Worker &) {
            std::vector<double> row(static_cast<std::size_t>(database_.cols()));
            queries_.read_row(static_cast<Index>(ids[b]), row.data());
            for (std::size_t s = 0; s < segments_.size(); ++s) {
                const std::size_t end = s + 1 < segments_.size()
                                            ? static_cast<std::size_t>(segments_[s + 1])
                                            : order_.size();
                std::vector<Neighbor> best;
                for (std::size_t o = static_cast<std::size_t>(segments_[s]); o < end; ++o) {
                    const std::int64_t first = copies_.first(order_[o], excluded(ids[b]));
                    if (first >= 0)
                        best.push_back({0, first});
                }
                rank(row.data(), excluded(ids[b]), best);
                emit(static_cast<Index>(ids[b]), static_cast<Index>(s), best);
            }
        });
    }

    /// Of groups, each by its lowest row, to the nearest rows: those of the k nearest groups.
    void rank(const double *query, std::int64_t left_out, std::vector<Neighbor> &candidates) const {
        set_distances(query, database_, frame_.fine, candidates.data(), candidates.size());
        keep_nearest(candidates);
        copies_.expand(candidates, 0, left_out, k_);
        keep_nearest(candidates);
    }

    void keep_nearest(std::vector<Neighbor> &neighbors) const {
        if (static_cast<Index>(neighbors.size()) > k_) {
            std::nth_element(neighbors.begin(), neighbors.begin() + k_, neighbors.end());
            neighbors.resize(static_cast<std::size_t>(k_));
        }
        std::sort(neighbors.begin(), neighbors.end());
    }

    const Points &queries_;
    const Points &database_;
    Index k_;
    Codes exclude_;
    std::vector<std::int64_t> order_;
    std::vector<Index> segments_;
    Frame frame_;
    Copies copies_;
};

namespace detail {

inline void check_search(const Points &queries, const Points &database, Index k) {
    require(queries.cols() == database.cols(), "kneighbors: queries and database differ in width");
    require(k >= 1, "kneighbors: n_neighbors must be at least 1");
    require(database.rows() <= std::numeric_limits<std::int32_t>::max() / 2,
            "kneighbors: the database has more than 2^30 points");
}

/// Writes one query's neighbours in one segment; missing ones become inf and -1.
template <class T>
void write_neighbors(const std::vector<Neighbor> &found, double scale, bool squared, Index k,
                     T *distances, std::int64_t *indices) {
    for (Index r = 0; r < k; ++r) {
        const bool has = r < static_cast<Index>(found.size());
        const double d = has ? found[r].distance : std::numeric_limits<double>::infinity();
        distances[r] = unscaled<T>(d, scale, squared);
        indices[r] = has ? found[r].index : -1;
    }
}

} // namespace detail

/// The k nearest database rows of each query, nearest first, ties by the lower row.
///
/// \tparam T precision of the reported distances; the choice and order of neighbours is that of
///   sum (a-b)^2 in double, in index order, whatever T is; distances that overflow T are infinite.
/// \param exclude per query a database row to leave out, -1 for none, or null.
/// \param distances, indices (queries.rows x k), row-major, written.
template <class T>
void kneighbors(const Points &queries, const Points &database, Index k, Codes exclude, bool squared,
                View<T> distances, View<std::int64_t> indices, const Control &control = {}) {
    detail::check_search(queries, database, k);
    require(k <= database.rows(), "kneighbors: n_neighbors exceeds the number of database points");
    require(distances.rows == queries.rows() && distances.cols == k &&
                indices.rows == queries.rows() && indices.cols == k,
            "kneighbors: distances and indices must be (n_queries, n_neighbors)");
    const SegmentSearch search(queries, database, k, exclude, identity_order(database.rows()), {0});
    search.run(control, [&](Index i, Index, const std::vector<Neighbor> &found) {
        detail::write_neighbors(found, search.scale(), squared, k, distances.row(i),
                                indices.row(i));
    });
}

/// The k nearest database rows of each class: like kneighbors, outputs (n, classes, k) contiguous,
/// padded with inf and -1 where a class has fewer than k points.
/// \param labels database labels in [0, classes).
template <class T>
void kneighbors_per_class(const Points &queries, const Points &database, Codes labels,
                          Index classes, Index k, Codes exclude, bool squared, T *distances,
                          std::int64_t *indices, const Control &control = {}) {
    detail::check_search(queries, database, k);
    require(labels.size() == database.rows(),
            "kneighbors_per_class: there must be one label for each database point");
    for (const std::int64_t label : labels)
        require(label >= 0 && label < classes, "kneighbors_per_class: label out of range");
    std::vector<Index> starts;
    auto order = order_by_label(labels, classes, &starts);
    const SegmentSearch search(queries, database, k, exclude, std::move(order), std::move(starts));
    search.run(control, [&](Index i, Index s, const std::vector<Neighbor> &found) {
        const Index at = (i * classes + s) * k;
        detail::write_neighbors(found, search.scale(), squared, k, distances + at, indices + at);
    });
}

METRICFAST_NAMESPACE_END
