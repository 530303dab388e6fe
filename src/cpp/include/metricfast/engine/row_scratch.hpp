/// The memory that the row engine works in. One that is used again, as by the evaluations of a
/// training, spares the system from giving, and clearing, it each time.
#pragma once

#include "metricfast/engine/database_gradient.hpp"
#include "metricfast/engine/listed_rows.hpp"
#include "metricfast/engine/window.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> struct RowScratch {
    /// A share of the work, and what comes out of it.
    struct Lane {
        DatabaseShare<T> database;
        RowTotals totals;
        Index failures = 0;   ///< window searches in a row that found too much
        Index unsearched = 0; ///< blocks since then
    };

    /// What a thread works on, a block at a time.
    struct Desk {
        RowMatrix<T> values; ///< of whole rows
        ListedRows<T> listed;
        WindowLists near;
        AlignedVector<T> roots; ///< of a row
        RowMatrix<double> own;  ///< gradients of anchors
    };

    EmbeddedSides<T> sides;
    std::vector<Lane> lanes;
    std::vector<Desk> desks;
    RowMatrix<T> weights; ///< of all rows, where these are kept
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
