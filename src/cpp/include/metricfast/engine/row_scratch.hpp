/// Working memory of the row engine. Reuse by the evaluations of a training run avoids allocating
/// and clearing it each time.
#pragma once

#include "metricfast/engine/database_gradient.hpp"
#include "metricfast/engine/listed_rows.hpp"
#include "metricfast/engine/window.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> struct RowScratch {
    /// A share of the work and its results.
    struct Lane {
        DatabaseShare<T> database;
        RowTotals totals;
        Index failures = 0;   ///< consecutive window searches with too many results
        Index unsearched = 0; ///< blocks since the last search
    };

    /// Working memory of a thread for one block.
    struct Desk {
        RowMatrix<T> values; ///< values of whole rows
        ListedRows<T> listed;
        WindowLists near;
        AlignedVector<T> roots;           ///< square roots of a row
        RowMatrix<double> query_gradient; ///< gradients of anchors
    };

    EmbeddedSides<T> sides;
    std::vector<Lane> lanes;
    std::vector<Desk> desks;
    RowMatrix<T> weights; ///< weights of all rows, for the routes that keep them
    std::vector<typename DatabaseShare<T>::Entry> sorted;

    void ready(Index n_lanes, int threads, std::size_t memory) {
        lanes.resize(static_cast<std::size_t>(n_lanes));
        desks.resize(static_cast<std::size_t>(threads));
        for (Lane &lane : lanes) {
            lane.database.reset(memory);
            lane.totals = {};
            lane.failures = lane.unsearched = 0;
        }
    }
};

METRICFAST_NAMESPACE_END
