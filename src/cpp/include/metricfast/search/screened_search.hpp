/// The k nearest of a block of queries by floating-point bounds, exactly.
#pragma once

#include "metricfast/search/cascade.hpp"
#include "metricfast/search/prepared.hpp"
#include "metricfast/search/ranking.hpp"
#include "metricfast/search/sweep.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class S> class ScreenedSearch {
  public:
    /// \param copies of the rows that `screen` holds.
    ScreenedSearch(const PreparedDatabase &database, const ScreenedDatabase<S> &screen,
                   const Copies &copies, const Queries &queries, Index k, const Filter &filter)
        : database_(database), screen_(screen), copies_(copies), queries_(queries), k_(k),
          filter_(filter) {}

    /// Memory that is used again.
    struct Memory {
        Sweep<S> sweep;
        std::vector<CandidateList<S>> lists;
        std::vector<double> row;
        std::vector<Neighbor> near;
    };

    SearchPanels panels() const { return {screen_.packed()}; }
    Index bytes() const { return sweep_bytes<S>(queries_.cols(), k_); }

    /// See Cascade::stage(). A query is crowded if it has too many candidates.
    template <class Emit>
    void run(const std::int64_t *ids, Index count, Index begin, Index end, char *crowded, Memory &m,
             Emit &&emit) const {
        const auto &packed = screen_.packed();
        m.sweep.begin(screen_, queries_.images(), database_.frame(), ids, 0, count);
        if (static_cast<Index>(m.lists.size()) < count)
            m.lists.resize(static_cast<std::size_t>(count));
        for (Index i = 0; i < count; ++i) {
            m.lists[i].reset(k_, m.sweep.slack(i));
            if (!crowded[i])
                m.sweep.threshold(i) = m.lists[i].threshold();
        }
        m.sweep.run(begin, end, [&](Index i, Index position, S lower) {
            const Index copies = copies_.count(packed.id(position), allowed(ids[i]), k_);
            if (copies == 0)
                return;
            m.lists[i].add(lower, screen_.slack(position), position, copies);
            m.sweep.threshold(i) = m.lists[i].threshold();
        });
        for (Index i = 0; i < count; ++i) {
            if (crowded[i])
                continue;
            m.lists[i].tighten();
            if (m.lists[i].overflown()) {
                crowded[i] = 1;
                continue;
            }
            m.near.clear();
            for (const auto &entry : m.lists[i].entries())
                m.near.push_back({0, copies_.first(packed.id(entry.position), allowed(ids[i]))});
            rank_nearest(queries_, static_cast<Index>(ids[i]), database_.space(),
                         database_.frame().exact_scale, k_, m.row, m.near);
            copies_.expand(m.near, 0, allowed(ids[i]), k_);
            keep_nearest(m.near, k_);
            emit(i, m.near);
        }
    }

  private:
    auto allowed(std::int64_t query) const {
        return [this, query](std::int64_t row) { return filter_(static_cast<Index>(query), row); };
    }

    const PreparedDatabase &database_;
    const ScreenedDatabase<S> &screen_;
    const Copies &copies_;
    const Queries &queries_;
    Index k_;
    Filter filter_;
};

METRICFAST_NAMESPACE_END
