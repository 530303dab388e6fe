/// Exact search of many nearest points for a block of queries: compute bounds of all points, then
/// select the smallest. For large k this is faster than maintaining sorted lists.
#pragma once

#include "metricfast/search/cascade.hpp"
#include "metricfast/search/prepared.hpp"
#include "metricfast/search/ranking.hpp"

METRICFAST_NAMESPACE_BEGIN

class BlockSearch {
  public:
    BlockSearch(const PreparedDatabase &database, const ScreenedDatabase<float> &screen,
                const Queries &queries, Index k, const Filter &filter)
        : database_(database), screen_(screen), queries_(queries), k_(k), filter_(filter) {}

    /// True if selection is faster than lists, for these numbers of points, queries and neighbours.
    static bool serves(Index points, Index queries, Index k) {
        return k >= 64 && points <= 64 * k && queries >= PackedQueries<float>::rows;
    }

    /// Reusable memory.
    struct Memory {
        PackedQueries<float> queries{0};
        std::vector<float> lower, some;
        std::vector<std::int32_t> positions;
        std::vector<double> row;
        std::vector<Neighbor> near, sorted;
    };

    SearchPanels panels() const { return {screen_.packed()}; }
    Index bytes() const {
        return Index(sizeof(float)) * (queries_.cols() + screen_.packed().positions());
    }

    /// See Cascade::stage(). A query is crowded if the bounds leave too many candidates.
    template <class Emit>
    void run(const std::int64_t *ids, Index count, Index begin, Index end, char *crowded, Memory &m,
             Emit &&emit) const {
        const Index first = begin * ScreenedDatabase<float>::cols;
        const Index size = (end - begin) * ScreenedDatabase<float>::cols;
        m.queries.pack(queries_.images(), database_.frame(), ids, 0, count);
        const Index padded = m.queries.micro_panels() * PackedQueries<float>::rows;
        m.lower.resize(static_cast<std::size_t>(padded * size));
        screen_.store(begin, end, m.queries, m.lower.data());
        for (Index i = 0; i < count; ++i) {
            if (crowded[i])
                continue;
            float *lower = m.lower.data() + i * size;
            const auto query = static_cast<Index>(ids[i]);
            for (Index j = 0; filter_.several() && j < size; ++j)
                if (const std::int64_t row = screen_.packed().id(first + j);
                    row >= 0 && !filter_(query, row))
                    lower[j] = std::numeric_limits<float>::infinity();
            const Index wanted = std::min(size, k_ + (filter_.exclude != nullptr ? 1 : 0));
            // At least `wanted` points have an upper bound of at most this.
            const double most = static_cast<double>(select(lower, size, wanted, m)) +
                                screen_.most_slack() + 2 * screen_.error() * m.queries.norm(i);
            const auto limit = above<float>(most);
            m.near.clear();
            const auto keep = [&](Index j) {
                const std::int64_t row = screen_.packed().id(first + j);
                if (lower[j] < limit && row >= 0 && filter_(query, row))
                    m.near.push_back({0, row});
            };
            if (limit <= m.some[0])
                for (const std::int32_t j : m.positions)
                    keep(j);
            else
                for (Index j = 0; j < size; ++j)
                    keep(j);
            if (static_cast<Index>(m.near.size()) > 2 * k_ + 256) {
                crowded[i] = 1;
                continue;
            }
            queries_.read(query, m.row);
            settle(queries_, query, m.row.data(), database_.space(), database_.frame().exact_scale,
                   m.near.data(), m.near.size());
            sort_neighbors(m.near, m.sorted);
            if (static_cast<Index>(m.near.size()) > k_)
                m.near.resize(static_cast<std::size_t>(k_));
            emit(i, m.near);
        }
    }

  private:
    /// The `wanted`-th smallest value. Stores the positions of values below m.some[0] in
    /// m.positions.
    static float select(const float *values, Index size, Index wanted, Memory &m) {
        constexpr Index samples = 512;
        float pivot = std::numeric_limits<float>::infinity();
        if (size >= 4 * samples) {
            m.some.resize(samples);
            for (Index s = 0; s < samples; ++s)
                m.some[s] = values[s * size / samples];
            // Four standard deviations above the wanted share.
            const double share = static_cast<double>(wanted) / static_cast<double>(size);
            const double rank = samples * share + 4 * std::sqrt(samples * share) + 2;
            if (rank < samples) {
                const auto at = m.some.begin() + static_cast<Index>(rank);
                std::nth_element(m.some.begin(), at, m.some.end());
                pivot = *at;
            }
        }
        const auto collect = [&] {
            m.positions.resize(static_cast<std::size_t>(size));
            Index n = 0;
            for (Index j = 0; j < size; ++j) {
                m.positions[n] = static_cast<std::int32_t>(j);
                n += values[j] < pivot ? 1 : 0;
            }
            m.positions.resize(static_cast<std::size_t>(n));
        };
        collect();
        if (static_cast<Index>(m.positions.size()) < wanted) {
            pivot = std::numeric_limits<float>::infinity();
            collect();
        }
        m.some.assign(1, pivot);
        for (const std::int32_t j : m.positions)
            m.some.push_back(values[j]);
        if (static_cast<Index>(m.positions.size()) < wanted) // padding, or overflow of bounds
            return std::numeric_limits<float>::infinity();
        const auto at = m.some.begin() + wanted;
        std::nth_element(m.some.begin() + 1, at, m.some.end());
        return *at;
    }

    const PreparedDatabase &database_;
    const ScreenedDatabase<float> &screen_;
    const Queries &queries_;
    Index k_;
    Filter filter_;
};

METRICFAST_NAMESPACE_END
