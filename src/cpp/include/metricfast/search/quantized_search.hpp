/// Exact search of the k nearest points for a block of queries with 8-bit coordinates.
///
/// Collects points that the bounds do not exclude. When a query's list is full, exact distances of
/// its most promising points tighten the bound for further points.
#pragma once

#include "metricfast/search/cascade.hpp"
#include "metricfast/search/prepared.hpp"
#include "metricfast/search/ranking.hpp"

METRICFAST_NAMESPACE_BEGIN

class QuantizedSearch {
  public:
    /// \param k number of neighbours.
    /// \param within see Database::search().
    QuantizedSearch(const PreparedDatabase &database, const Queries &queries, Index k,
                    const Filter &filter, Span<const double> within)
        : database_(database), quantized_(*database.quantized()), queries_(queries), k_(k),
          filter_(filter), within_(within), capacity_(capacity(quantized_, k)),
          rough_(queries, database.space(), database.frame().exact_scale) {}

    /// Returns whether integer products save more than the additional candidates cost. True for few
    /// queries, where reading the points dominates.
    /// \param known whether a bound of the distances is known, which leaves few candidates.
    static bool serves(const QuantizedDatabase &database, Index queries, Index k, bool known) {
        const Index parts = database.divided() ? 1 : std::max<Index>(1, database.segments());
        const Index points = database.positions() / parts;
        const Index candidates = 100 + (known ? k : 12 * k);
        return queries <= Int8Tile::rows || affordable(points, database.depth(), candidates);
    }

    /// Returns whether `candidates` of a query cost less than a search with float products.
    static bool affordable(Index points, Index depth, Index candidates) {
        return static_cast<double>(points) * static_cast<double>(depth) >=
               static_cast<double>(per_candidate) * static_cast<double>(candidates);
    }

    SearchPanels panels() const { return {quantized_, quantized_.divided()}; }
    Index bytes() const { return 4 * quantized_.groups() + 256 + 16 * k_; }

    /// Sorts queries by cell, because queries of one cell search the same cells.
    void arrange(std::vector<std::int64_t> &ids, const Control &control) const {
        if (!quantized_.divided() || ids.size() <= Int8Tile::rows)
            return;
        const Centroids centroids(eigen(quantized_.centroids()).cast<float>());
        const Frame &frame = database_.frame();
        const auto cells = nearest_cells(queries_.images(), frame, &ids, centroids, control);
        std::vector<std::int64_t> sorted;
        for (const std::int64_t at : order_by_label(
                 {cells.data(), static_cast<Index>(cells.size())}, quantized_.segments(), nullptr))
            sorted.push_back(ids[at]);
        ids.swap(sorted);
    }

    struct Sum {
        std::int32_t position;
        float lower;         ///< lower bound of the squared distance
        float guess;         ///< estimate of it
        float distance = -1; ///< upper bound of the exact distance, or -1 if not computed
    };

    /// Reusable memory.
    struct Memory {
        QuantizedQueries queries;
        std::vector<Sum> sums;
        std::vector<Index> sizes;                    ///< size of each query's list of sums
        std::vector<Index> seen;                     ///< its size when it was last processed
        std::vector<Index> full;                     ///< its size at which it is processed next
        std::vector<std::pair<double, Index>> cells; ///< in search order
        Index candidates = 0;                        ///< total number
        std::vector<double> row;
        std::vector<Neighbor> near;
    };

    /// See Cascade::stage(). A query is crowded if it has too many candidates.
    template <class Emit>
    void run(const std::int64_t *ids, Index count, Index begin, Index end, char *crowded, Memory &m,
             Emit &&emit) const {
        m.sizes.assign(static_cast<std::size_t>(count), 0);
        m.seen.assign(static_cast<std::size_t>(count), 0);
        m.full.assign(static_cast<std::size_t>(count), step(0));
        m.sums.resize(static_cast<std::size_t>(count * capacity()));
        m.queries.begin(quantized_, queries_.images(), database_.frame(), ids, 0, count);
        bool samples = within_ == nullptr;
        for (Index i = 0; i < count; ++i)
            if (!crowded[i]) {
                const double limit = known_limit(ids[i], m.queries.norm(i));
                samples = samples || !std::isfinite(limit);
                m.queries.lower_limit(i, limit);
            }
        const auto hit = [&](Index i, Index position, std::int32_t sum) {
            if (crowded[i] || !eligible(quantized_.id(position), ids[i]))
                return;
            ++m.candidates;
            const Index panel = position / QuantizedDatabase::cols;
            m.sums[i * capacity() + m.sizes[i]] = {static_cast<std::int32_t>(position),
                                                   m.queries.lower(i, panel, sum),
                                                   m.queries.guess(i, sum)};
            if (++m.sizes[i] == m.full[i])
                crowded[i] = !tighten(i, ids[i], m);
        };
        nearest_first(count, begin, end, m);
        for (Index i = 0; m.cells.size() > 1 && i < count; ++i)
            if (!crowded[i])
                sample_nearest_cell(i, ids[i], m);
        for (const auto &[away, c] : m.cells) {
            if (!m.queries.enter_cell(c))
                continue;
            const Index first = std::max(begin, quantized_.segment_begin(c));
            const Index last = std::min(end, quantized_.segment_end(c));
            const Index sampled = std::min(std::max<Index>(128, k_), (last - first) / 8);
            if (samples && !filter_.several() && sampled >= std::max<Index>(48, k_))
                m.queries.sample_limits(quantized_, first, first + sampled,
                                        filter_.exclude != nullptr ? k_ + 1 : k_,
                                        database_.space().margin(database_.frame().scale));
            samples = false;
            m.queries.sweep(quantized_, first, last, hit);
            // The neighbours found so far exclude distant cells.
            for (Index i = 0; m.cells.size() > 1 && i < count; ++i)
                if (!crowded[i] && m.sizes[i] - m.seen[i] > k_)
                    crowded[i] = !tighten(i, ids[i], m);
        }
        for (Index i = 0; i < count; ++i) {
            if (!crowded[i])
                crowded[i] = !tighten(i, ids[i], m);
            if (crowded[i])
                continue;
            m.near.clear();
            const Sum *sums = &m.sums[i * capacity()];
            for (Index c = 0; c < m.sizes[i]; ++c)
                m.near.push_back({0, quantized_.id(sums[c].position)});
            rank_nearest(queries_, static_cast<Index>(ids[i]), database_.space(),
                         database_.frame().exact_scale, k_, m.row, m.near);
            emit(i, m.near);
        }
    }

  private:
    /// Maximum number of candidates of a query; with more, float products would be faster.
    static Index capacity(const QuantizedDatabase &database, Index k) {
        const Index least = 256 + 16 * k;
        const Index worth = database.positions() * database.depth() / per_candidate;
        return std::max(least, std::min(worth, 4096 + least));
    }
    Index capacity() const { return capacity_; }
    /// Number of new candidates after which the best are selected.
    Index step(Index size) const { return std::max(3 * k_ + 16, size / 2); }

    /// Bounds the neighbours' distances by the distances of some points in the nearest cell, which
    /// another thread may be searching.
    void sample_nearest_cell(Index i, std::int64_t id, Memory &m) const {
        Index c = m.cells.front().second;
        for (Index other = 0; other < quantized_.segments(); ++other)
            if (quantized_.segment_begin(other) < quantized_.segment_end(other) &&
                m.queries.centroid_distance(i, other) < m.queries.centroid_distance(i, c))
                c = other;
        const Index first = quantized_.segment_begin(c) * QuantizedDatabase::cols;
        const Index size = quantized_.segment_end(c) * QuantizedDatabase::cols - first;
        const Index count = std::min(size, 3 * k_ + 16);
        m.near.clear();
        for (Index j = 0; j < count; ++j)
            if (const std::int64_t row = quantized_.id(first + j * size / count);
                eligible(row, id)) {
                rough_.fetch(row);
                m.near.push_back({0, row});
            }
        if (static_cast<Index>(m.near.size()) < k_)
            return;
        for (Neighbor &point : m.near)
            point.distance = rough_(static_cast<Index>(id), point.index);
        std::nth_element(m.near.begin(), m.near.begin() + k_ - 1, m.near.end());
        const float last = framed(m.near[static_cast<std::size_t>(k_ - 1)].distance);
        m.queries.lower_limit(
            i, detail::quantized_limit(static_cast<double>(last), m.queries.norm(i)));
    }

    /// Lists the cells of panels [begin, end), ordered by distance from the queries.
    void nearest_first(Index count, Index begin, Index end, Memory &m) const {
        m.cells.clear();
        if (begin == end)
            return;
        const Index last = quantized_.cell_of_panel(end - 1);
        for (Index c = quantized_.cell_of_panel(begin); c <= last; ++c) {
            double away = 0;
            for (Index i = 0; i < count; ++i)
                away += m.queries.cell_distance(i, c);
            if (quantized_.segment_begin(c) < quantized_.segment_end(c))
                m.cells.emplace_back(away, c);
        }
        std::sort(m.cells.begin(), m.cells.end());
    }

    /// Removes candidates that cannot be among the k nearest. Returns false if too many remain.
    bool tighten(Index i, std::int64_t id, Memory &m) const {
        Sum *sums = &m.sums[i * capacity()];
        Index size = m.sizes[i];
        if (size > k_) {
            // The candidates with the smallest estimates are the most promising.
            std::nth_element(sums, sums + k_ - 1, sums + size,
                             [](const Sum &a, const Sum &b) { return a.guess < b.guess; });
            float last = 0;
            for (Index c = 0; c < k_; ++c)
                if (sums[c].distance < 0)
                    rough_.fetch(quantized_.id(sums[c].position));
            for (Index c = 0; c < k_; ++c) {
                if (sums[c].distance < 0)
                    sums[c].distance =
                        framed(rough_(static_cast<Index>(id), quantized_.id(sums[c].position)));
                last = std::max(last, sums[c].distance);
            }
            m.queries.lower_limit(
                i, detail::quantized_limit(static_cast<double>(last), m.queries.norm(i)));
            size =
                std::remove_if(sums, sums + size,
                               [&](const Sum &c) { return !m.queries.within_limit(i, c.lower); }) -
                sums;
            m.sizes[i] = size;
        }
        m.seen[i] = size;
        m.full[i] = std::min(size + step(size), capacity());
        if (m.full[i] >= size + step(0))
            return true;
        m.queries.stop(i);
        return false;
    }

    bool eligible(std::int64_t row, std::int64_t query) const {
        return row >= 0 && filter_(static_cast<Index>(query), row);
    }

    /// Converts a distance in units of exact_scale to the frame, rounded up.
    float framed(double distance) const {
        const double unit = database_.frame().scale / database_.frame().exact_scale;
        return detail::float_above(rough_.above(distance) * unit * unit);
    }

    /// Initial upper bound of the k-th distance of a query.
    double known_limit(std::int64_t query, double norm) const {
        if (within_ == nullptr || !std::isfinite(within_[query]))
            return std::numeric_limits<double>::infinity();
        const double scale = database_.frame().exact_scale;
        return detail::quantized_limit(static_cast<double>(framed(within_[query] * scale * scale)),
                                       norm);
    }

    const PreparedDatabase &database_;
    const QuantizedDatabase &quantized_;
    const Queries &queries_;
    Index k_;
    Filter filter_;
    Span<const double> within_;
    Index capacity_;
    RoughDistances rough_;

    /// Measured cost of a candidate, in products.
    static constexpr Index per_candidate = 5500;
};

METRICFAST_NAMESPACE_END
