/// All neighbours within a radius, exactly, without an n x m matrix.
#pragma once

#include <atomic>

#include "metricfast/search/neighbors.hpp"
#include "metricfast/search/sweep.hpp"
#include "metricfast/search/types.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Arguments of a search within a radius, and the number of pairs that it found so far.
struct RadiusProblem {
    Points queries, database;
    RadiusSettings settings;
    Frame frame;
    double square; ///< squared radius in the frame
    /// Pairs of all queries; beyond the maximum they are counted but not stored.
    mutable std::atomic<std::int64_t> pairs{0};

    RadiusProblem(const Points &queries_, const Points &database_, const RadiusSettings &settings_)
        : queries(queries_), database(database_), settings(settings_),
          frame(frame_of(database, queries)),
          square(settings.radius * frame.scale * (settings.radius * frame.scale)) {}

    /// Sets the distances of the neighbours from `old` on. Keeps and counts those whose distance,
    /// the root of sum (a-b)^2 in double, in index order, is at most the radius. Returns false if
    /// there are too many pairs.
    bool keep_near(const double *query, std::size_t old, std::vector<Neighbor> &neighbors) const {
        set_distances(query, database, frame.exact_scale, neighbors.data() + old,
                      neighbors.size() - old);
        neighbors.erase(std::remove_if(neighbors.begin() + static_cast<Index>(old), neighbors.end(),
                                       [this](const Neighbor &n) {
                                           return !(unscaled<double>(n.distance, frame.exact_scale,
                                                                     false) <= settings.radius);
                                       }),
                        neighbors.end());
        return (pairs += static_cast<std::int64_t>(neighbors.size() - old)) <= settings.most;
    }
    void arrange(std::vector<Neighbor> &neighbors) const {
        if (settings.sorted)
            std::sort(neighbors.begin(), neighbors.end());
    }
};

/// The search with bounds in S. A query for which floats are too coarse counts as crowded.
template <class S> class RadiusSearch {
  public:
    struct Memory {
        Sweep<S> sweep;
        std::vector<std::vector<Neighbor>> lists;
        std::vector<std::size_t> measured; ///< lengths of the lists after the last measurement
        std::vector<double> point;
    };

    RadiusSearch(const RadiusProblem &problem, const Control &control)
        : problem_(problem), screen_(problem.database, problem.frame,
                                     identity_order(problem.database.rows()), {0}, control),
          // The sums of exact distances are rounded, too.
          limit_(problem.square * (1 + 1e-15 * static_cast<double>(problem.database.cols() + 16))) {
    }

    SearchPanels panels() const { return {screen_.packed()}; }
    Index bytes() const { return sweep_bytes<S>(problem_.database.cols(), 1); }

    /// See Cascade::stage().
    template <class Emit>
    void run(const std::int64_t *ids, Index count, Index begin, Index end, char *crowded, Memory &m,
             Emit &&emit) const {
        m.sweep.begin(screen_, problem_.queries, problem_.frame, ids, 0, count);
        m.lists.resize(static_cast<std::size_t>(std::max<Index>(count, 1)));
        for (Index i = 0; i < count; ++i) {
            m.lists[i].clear();
            crowded[i] = std::is_same_v<S, float> && !(8 * width(m.sweep.norm(i)) <= limit_);
            if (!crowded[i])
                m.sweep.threshold(i) = m.sweep.reaching(i, limit_);
        }
        m.measured.assign(static_cast<std::size_t>(count), 0);
        m.point.resize(static_cast<std::size_t>(problem_.database.cols()));
        constexpr Index stretch = 1 << 14; // candidates that are stored before they are measured
        Index candidates = 0;
        const auto measure = [&] {
            for (Index i = 0; i < count; ++i) {
                auto &list = m.lists[i];
                if (list.size() == m.measured[i])
                    continue;
                problem_.queries.read_row(static_cast<Index>(ids[i]), m.point.data());
                if (!problem_.keep_near(m.point.data(), m.measured[i], list))
                    list.clear();
                m.measured[i] = list.size();
            }
            candidates = 0;
        };
        m.sweep.run(begin, end, [&](Index i, Index position, S) {
            const std::int64_t row = screen_.packed().id(position);
            if (const Codes exclude = problem_.settings.exclude;
                exclude != nullptr && exclude[ids[i]] == row)
                return;
            m.lists[i].push_back({0, row});
            if (++candidates == stretch)
                measure();
        });
        measure();
        for (Index i = 0; i < count; ++i) {
            if (crowded[i])
                continue;
            problem_.arrange(m.lists[i]);
            emit(i, m.lists[i]);
        }
    }

  private:
    /// Width of the bounds for points about as far from the centre as a query with this squared
    /// norm.
    double width(double norm) const {
        return screen_.tiny() + screen_.error() * (10 * norm + 8 * problem_.square);
    }

    const RadiusProblem &problem_;
    ScreenedDatabase<S> screen_;
    double limit_; ///< of the squared distances
};

/// The neighbours of each query.
inline std::vector<std::vector<Neighbor>> within_radius(const RadiusProblem &problem,
                                                        const Control &control) {
    std::vector<std::vector<Neighbor>> lists(static_cast<std::size_t>(problem.queries.rows()));
    CascadeMemory memory;
    memory.ids = identity_order(problem.queries.rows());
    Cascade cascade(control, memory);
    const auto with = [&](auto precision) {
        using Search = RadiusSearch<decltype(precision)>;
        std::vector<typename Search::Memory> memories;
        cascade.stage(
            Search(problem, cascade.control()), static_cast<double>(problem.database.cols()),
            memories, [&](std::vector<Neighbor> &found) { problem.arrange(found); },
            [&](Index query, Index, const std::vector<Neighbor> &found) { lists[query] = found; });
    };
    with(float());
    if (!cascade.done())
        with(double());
    return lists;
}

} // namespace detail

/// For every query the database rows within a radius.
///
/// \tparam T precision of the reported distances. Rows and their order are determined by the root
///   of sum (a-b)^2 in double, in index order, for any T.
template <class T>
NeighborLists<T> radius_neighbors(const Points &queries, const Points &database,
                                  const RadiusSettings &settings, const Control &control = {}) {
    require(queries.cols() == database.cols(),
            "radius_neighbors: queries and database differ in width");
    require(settings.radius >= 0 && std::isfinite(settings.radius),
            "radius_neighbors: radius must be finite and not negative");
    require(settings.most >= 0, "radius_neighbors: most must not be negative");
    require_excluded(settings.exclude, queries.rows(), database.rows(), "radius_neighbors");
    const detail::RadiusProblem problem(queries, database, settings);
    auto found = detail::within_radius(problem, control);
    NeighborLists<T> lists;
    lists.pairs = problem.pairs;
    lists.row_starts.push_back(0);
    if (lists.pairs > settings.most) {
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
            lists.distances.push_back(
                unscaled<T>(n.distance, problem.frame.exact_scale, settings.squared));
        }
        list = {};
    }
    return lists;
}

METRICFAST_NAMESPACE_END
