/// All neighbours within a radius, exactly, without an n x m matrix.
#pragma once

#include <atomic>

#include "metricfast/search/database.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Arguments of a search within a radius, and the number of pairs that it found so far.
struct RadiusProblem {
    const PreparedDatabase &database;
    const Queries &queries;
    RadiusSettings settings;
    /// Pairs of all queries; beyond the maximum they are counted but not stored.
    mutable std::atomic<std::int64_t> pairs{0};

    RadiusProblem(const PreparedDatabase &database_, const Queries &queries_,
                  const RadiusSettings &settings_)
        : database(database_), queries(queries_), settings(settings_) {
        settings.filter.check(queries.rows(), database.space().points().rows());
    }

    /// Upper bound of the D of all points within the radius, in the frame.
    double reach(Index query) const {
        const double scale = database.frame().scale;
        return database.space().margin(scale) +
               queries.reach(query, database.space(), settings.radius, scale) *
                   // The sums of exact distances are rounded, too.
                   (1 + 1e-15 * static_cast<double>(queries.cols() + 16));
    }
    /// The distance of a neighbour, which decides.
    double value(Index query, double distance) const {
        return database.space().euclidean()
                   ? unscaled<double>(distance, database.frame().exact_scale, false)
                   : queries.value(query, distance);
    }

    /// Sets the distances of the neighbours from `old` on. Keeps and counts those within the
    /// radius. Returns false if there are too many pairs.
    bool keep_near(Index query, std::vector<double> &row, std::size_t old,
                   std::vector<Neighbor> &neighbors) const {
        queries.read(query, row);
        settle(queries, query, row.data(), database.space(), database.frame().exact_scale,
               neighbors.data() + old, neighbors.size() - old);
        return keep(query, old, neighbors);
    }
    bool keep(Index query, std::size_t old, std::vector<Neighbor> &neighbors) const {
        neighbors.erase(std::remove_if(neighbors.begin() + static_cast<Index>(old), neighbors.end(),
                                       [&](const Neighbor &n) {
                                           return !(value(query, n.distance) <= settings.radius);
                                       }),
                        neighbors.end());
        return (pairs += static_cast<std::int64_t>(neighbors.size() - old)) <= settings.most;
    }
    void arrange(std::vector<Neighbor> &neighbors) const {
        const auto by_row = [](const Neighbor &a, const Neighbor &b) { return a.index < b.index; };
        if (settings.sorted)
            std::sort(neighbors.begin(), neighbors.end());
        else if (!std::is_sorted(neighbors.begin(), neighbors.end(), by_row))
            std::sort(neighbors.begin(), neighbors.end(), by_row);
    }
};

/// A search of a cascade by bounds in S, or in 8 bits. A query for which the bounds are too coarse
/// counts as crowded.
/// \tparam Block queries of a block: Sweep<S>, or QuantizedQueries.
template <class Block, class Screen> class RadiusSearch {
  public:
    struct Memory {
        Block block;
        std::vector<std::vector<Neighbor>> lists;
        std::vector<std::size_t> measured; ///< lengths of the lists after the last measurement
        std::vector<std::size_t> wasted;   ///< candidates that were too far
        std::vector<double> point;
    };

    /// \param bytes see Cascade::stage().
    RadiusSearch(const RadiusProblem &problem, const Screen &screen, const SearchPanels &panels,
                 Index bytes)
        : problem_(problem), screen_(screen), panels_(panels), bytes_(bytes) {}

    SearchPanels panels() const { return panels_; }
    Index bytes() const { return bytes_; }

    /// See Cascade::stage().
    template <class Emit>
    void run(const std::int64_t *ids, Index count, Index begin, Index end, char *crowded, Memory &m,
             Emit &&emit) const {
        m.block.begin(screen_, problem_.queries.images(), problem_.database.frame(), ids, 0, count);
        for (Index i = 0; i < count; ++i)
            crowded[i] = !m.block.reach(i, problem_.reach(static_cast<Index>(ids[i])));
        m.lists.resize(static_cast<std::size_t>(std::max<Index>(count, 1)));
        for (auto &list : m.lists)
            list.clear();
        m.measured.assign(static_cast<std::size_t>(count), 0);
        m.wasted.assign(static_cast<std::size_t>(count), 0);
        constexpr Index stretch = 1 << 14; // candidates that are stored before they are measured
        Index candidates = 0;
        const auto measure = [&] {
            for (Index i = 0; i < count; ++i) {
                auto &list = m.lists[i];
                if (list.size() == m.measured[i])
                    continue;
                m.wasted[i] += list.size();
                if (!problem_.keep_near(static_cast<Index>(ids[i]), m.point, m.measured[i], list))
                    list.clear();
                m.wasted[i] -= std::min(m.wasted[i], list.size());
                m.measured[i] = list.size();
                if (in_8_bits && m.wasted[i] / 4 > 1000 + list.size()) {
                    problem_.pairs -= static_cast<std::int64_t>(list.size());
                    m.block.stop(i);
                    crowded[i] = 1;
                    list.clear();
                    m.measured[i] = 0;
                }
            }
            candidates = 0;
        };
        m.block.run(begin, end, [&](Index i, Index position, auto) {
            const std::int64_t row = panels_.layout.id(position);
            if (row < 0 || crowded[i] || !problem_.settings.filter(static_cast<Index>(ids[i]), row))
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
    /// Then finer bounds may leave fewer candidates.
    static constexpr bool in_8_bits = std::is_same_v<Block, QuantizedQueries>;

    const RadiusProblem &problem_;
    const Screen &screen_;
    SearchPanels panels_;
    Index bytes_;
};

/// The neighbours of each query.
inline std::vector<std::vector<Neighbor>> within_radius(const RadiusProblem &problem,
                                                        const Control &control) {
    const PreparedDatabase &database = problem.database;
    const Index n = problem.queries.rows();
    std::vector<std::vector<Neighbor>> lists(static_cast<std::size_t>(n));
    CascadeMemory memory;
    for (Index i = 0; i < n; ++i)
        if (!problem.queries.is_zero(i))
            memory.ids.push_back(i);
        else
            for (Index row = 0; row < database.space().points().rows(); ++row)
                if (problem.settings.filter(i, row))
                    lists[i].push_back({database.space().from_zero(row), row});
    for (const Index i : problem.queries.zeros()) {
        if (!problem.keep(i, 0, lists[i]))
            lists[i].clear();
        problem.arrange(lists[i]);
    }
    Cascade cascade(control, memory);
    const auto with = [&](auto block, const auto &screen, const SearchPanels &panels, Index bytes,
                          double products) {
        using Search = RadiusSearch<decltype(block), std::decay_t<decltype(screen)>>;
        std::vector<typename Search::Memory> memories;
        cascade.stage(
            Search(problem, screen, panels, bytes), products, memories,
            [&](std::vector<Neighbor> &found) { problem.arrange(found); },
            [&](Index query, Index, const std::vector<Neighbor> &found) { lists[query] = found; });
    };
    const Index depth = problem.queries.cols();
    const auto products = static_cast<double>(depth);
    const QuantizedDatabase *quantized = database.quantized();
    if (quantized != nullptr && QuantizedSearch::serves(*quantized, n, 1, true))
        with(QuantizedQueries(), *quantized, {*quantized, quantized->divided()},
             4 * quantized->groups() + 256, 0.1 * products);
    if (!cascade.done()) {
        const auto &screen = database.single(cascade.control());
        with(Sweep<float>(), screen, {screen.packed()}, sweep_bytes<float>(depth, 1), products);
    }
    if (!cascade.done()) {
        const ScreenedDatabase<double> screen(database.space(), database.frame(),
                                              identity_order(database.space().points().rows()), {0},
                                              cascade.control());
        with(Sweep<double>(), screen, {screen.packed()}, sweep_bytes<double>(depth, 1),
             2 * products);
    }
    return lists;
}

/// For every query the rows of a prepared database within a radius.
template <class T>
NeighborLists<T> radius_neighbors(const PreparedDatabase &database, const Queries &queries,
                                  const RadiusSettings &settings, const Control &control) {
    const RadiusProblem problem(database, queries, settings);
    auto found = within_radius(problem, control);
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
    const bool euclidean = database.space().euclidean();
    for (std::size_t i = 0; i < found.size(); ++i) {
        for (const Neighbor &n : found[i]) {
            lists.indices.push_back(n.index);
            lists.distances.push_back(
                euclidean ? unscaled<T>(n.distance, database.frame().exact_scale, settings.squared)
                          : static_cast<T>(queries.value(static_cast<Index>(i), n.distance)));
        }
        found[i] = {};
    }
    return lists;
}

inline void check_radius(const Points &queries, const Points &database,
                         const RadiusSettings &settings, Metric metric) {
    require(queries.cols() == database.cols(),
            "radius_neighbors: queries and database differ in width");
    require(std::isfinite(settings.radius) &&
                (settings.radius >= 0 || metric == Metric::inner_product),
            "radius_neighbors: radius must be finite and not negative");
    require(settings.most >= 0, "radius_neighbors: most must not be negative");
}

} // namespace detail

/// For every query the rows of a database within a radius.
///
/// \tparam T precision of the reported distances. Rows and their order are determined by the root
///   of sum (a-b)^2 in double, in index order, for any T.
template <class T>
NeighborLists<T> radius_neighbors(const Points &queries, const Database &database,
                                  const RadiusSettings &settings, const Control &control = {}) {
    const Space &space = database.space();
    detail::check_radius(queries, space.points(), settings, space.metric());
    const Queries asked(space, queries, control);
    NeighborLists<T> lists;
    database.with_prepared(asked, control, [&](const PreparedDatabase &prepared) {
        lists = detail::radius_neighbors<T>(prepared, asked, settings, control);
    });
    return lists;
}

/// The same for points that are searched once.
template <class T>
NeighborLists<T> radius_neighbors(const Points &queries, const Points &points,
                                  const RadiusSettings &settings, const Control &control = {},
                                  Metric metric = Metric::euclidean) {
    detail::check_radius(queries, points, settings, metric);
    const Space space(points, metric, control);
    const Queries asked(space, queries, control);
    const PreparedDatabase prepared(space, space.frame_with(asked.images()),
                                    {identity_order(points.rows()), {0}}, false, control);
    return detail::radius_neighbors<T>(prepared, asked, settings, control);
}

METRICFAST_NAMESPACE_END
