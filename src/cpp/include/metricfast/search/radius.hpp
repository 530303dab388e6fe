/// All neighbours within a radius, exactly, without an n x m matrix.
#pragma once

#include <atomic>

#include "metricfast/search/neighbors.hpp"
#include "metricfast/search/sweep.hpp"
#include "metricfast/search/types.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Database rows with distance <= radius of each query, the distance being the root of
/// sum (a-b)^2 in double, in index order.
class RadiusSearch {
  public:
    using Lists = std::vector<std::vector<Neighbor>>;

    RadiusSearch(const Points &queries, const Points &database, double radius, Codes exclude,
                 bool sorted, std::int64_t most)
        : queries_(queries), database_(database), radius_(radius), exclude_(exclude),
          sorted_(sorted), most_(most), frame_(frame_of(database, queries)),
          square_(radius * frame_.scale * (radius * frame_.scale)) {}

    Lists run(const Control &control) const {
        Lists lists(static_cast<std::size_t>(queries_.rows()));
        const Control quiet{control.threads, control.keep_going, {}};
        screened<double>(screened<float>(identity_order(queries_.rows()), lists, control), lists,
                         quiet);
        return lists;
    }

    /// Number of candidate pairs of all queries; beyond `most` they are counted but not stored.
    std::int64_t pairs() const { return pairs_; }

    /// Scale of the distances in the lists.
    double scale() const { return frame_.exact_scale; }

  private:
    /// Fills the lists of `ids` with bounds in S; returns the ids for which S is too coarse.
    template <class S>
    std::vector<std::int64_t> screened(const std::vector<std::int64_t> &ids, Lists &lists,
                                       const Control &control) const {
        if (ids.empty())
            return ids;
        const ScreenedDatabase<S> screen(database_, frame_, identity_order(database_.rows()), {0},
                                         control);
        return screened_blocks<S>(ids, database_.cols(), 1, control,
                                  [&](const std::int64_t *first, Index count, auto &coarse) {
                                      search_block<S>(screen, first, count, lists, coarse);
                                  });
    }

    template <class S>
    void search_block(const ScreenedDatabase<S> &screen, const std::int64_t *ids, Index count,
                      Lists &lists, std::vector<std::int64_t> &coarse) const {
        const auto &packed = screen.packed();
        Sweep<S> sweep;
        sweep.begin(screen, queries_, frame_, ids, 0, count);
        // The sums of exact distances are rounded, too.
        const double limit = square_ * (1 + 1e-15 * static_cast<double>(database_.cols() + 16));
        const std::size_t before = coarse.size();
        for (Index i = 0; i < count; ++i) {
            if (std::is_same_v<S, float> && !(8 * width(screen, sweep.norm(i)) <= limit))
                coarse.push_back(ids[i]);
            else
                sweep.threshold(i) = sweep.reaching(i, limit);
        }
        if (static_cast<Index>(coarse.size() - before) == count)
            return;
        constexpr std::int64_t stretch = 1024;
        std::int64_t uncounted = 0;
        bool fits = true;
        const auto count_pairs = [&] {
            fits = (pairs_ += uncounted) <= most_;
            uncounted = 0;
        };
        sweep.run(0, packed.panels(), [&](Index i, Index position, S) {
            const std::int64_t row = packed.id(position);
            if (exclude_ != nullptr && exclude_[ids[i]] == row)
                return;
            if (++uncounted == stretch)
                count_pairs();
            if (fits)
                lists[ids[i]].push_back({0, row});
        });
        count_pairs();
        if (!fits)
            return;
        std::vector<double> point(static_cast<std::size_t>(database_.cols()));
        for (Index i = 0; i < count; ++i) {
            auto &list = lists[ids[i]];
            queries_.read_row(static_cast<Index>(ids[i]), point.data());
            set_distances(point.data(), database_, frame_.exact_scale, list.data(), list.size());
            list.erase(std::remove_if(list.begin(), list.end(),
                                      [this](const Neighbor &n) { return !within(n.distance); }),
                       list.end());
            if (sorted_)
                std::sort(list.begin(), list.end());
        }
    }

    /// Width of the bounds for points about as far from the centre as a query with this squared
    /// norm.
    template <class S> double width(const ScreenedDatabase<S> &screen, double norm) const {
        return screen.tiny() + screen.error() * (10 * norm + 8 * square_);
    }

    bool within(double distance) const {
        return unscaled<double>(distance, frame_.exact_scale, false) <= radius_;
    }

    Points queries_;
    Points database_;
    double radius_;
    Codes exclude_;
    bool sorted_;
    std::int64_t most_;
    mutable std::atomic<std::int64_t> pairs_{0};
    Frame frame_;
    double square_; ///< squared radius in the frame
};

} // namespace detail

/// For every query the database rows within `radius`, ordered by row, or if `sorted` nearest first
/// with ties by the lower row.
///
/// \tparam T precision of the reported distances. Rows and their order are determined by the root
///   of sum (a-b)^2 in double, in index order, for any T.
/// \param exclude for each query a database row to exclude, -1 for none, or null.
/// \param most maximum number of pairs. If there are more, no pair is returned.
template <class T>
NeighborLists<T> radius_neighbors(const Points &queries, const Points &database, double radius,
                                  Codes exclude, bool sorted, const Control &control = {},
                                  bool squared = false,
                                  std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
    require(queries.cols() == database.cols(),
            "radius_neighbors: queries and database differ in width");
    require(radius >= 0 && std::isfinite(radius),
            "radius_neighbors: radius must be finite and not negative");
    require_excluded(exclude, queries.rows(), database.rows(), "radius_neighbors");
    const detail::RadiusSearch search(queries, database, radius, exclude, sorted, most);
    auto found = search.run(control);
    NeighborLists<T> lists;
    lists.pairs = search.pairs();
    lists.row_starts.push_back(0);
    if (lists.pairs > most) {
        lists.row_starts.resize(found.size() + 1, 0);
        return lists;
    }
    for (const auto &list : found)
        lists.row_starts.push_back(lists.row_starts.back() +
                                   static_cast<std::int64_t>(list.size()));
    lists.indices.reserve(static_cast<std::size_t>(lists.row_starts.back()));
    lists.distances.reserve(static_cast<std::size_t>(lists.row_starts.back()));
    for (auto &list : found) {
        for (const Neighbor &n : list) {
            lists.indices.push_back(n.index);
            lists.distances.push_back(unscaled<T>(n.distance, search.scale(), squared));
        }
        list = {};
    }
    return lists;
}

METRICFAST_NAMESPACE_END
