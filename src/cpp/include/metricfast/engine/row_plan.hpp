/// The route of the row engine for a problem. It depends on sizes and the memory budget only, so
/// results do not depend on the number of threads.
#pragma once

#include <algorithm>

#include "metricfast/engine/row_problem.hpp"
#include "metricfast/engine/window.hpp"

METRICFAST_NAMESPACE_BEGIN

struct RowPlan {
    enum class Route {
        listed,  ///< rows are the given candidate lists
        windows, ///< lists of near points, or whole rows if the lists are long
        kept,    ///< whole rows of few points; one product of all weights at the end
        batch,   ///< the same for a batch against a database
        whole    ///< whole rows; the weights of each block are multiplied, or added one by one
    };
    Route route;
    Index lanes;        ///< shares of the work, each with an accumulator for the database gradient
    Index block;        ///< rows per block of a lane
    Index dense;        ///< whole rows per step
    std::size_t memory; ///< bytes of individually stored weights per lane

    static constexpr Index most_lanes = 8;

    bool keeps() const { return route == Route::kept || route == Route::batch; }

    /// Returns true if all weights of whole rows fit into the memory budget.
    template <class T> static bool is_small(const RowProblem<T> &problem) {
        const std::size_t n = static_cast<std::size_t>(problem.queries.rows);
        return problem.symmetric && !problem.listed() &&
               n * n * sizeof(T) <= std::min(problem.memory_budget / 4, std::size_t(1) << 24);
    }

    /// Returns true if all weights of a batch and its database fit into the memory budget, and sums
    /// over the batch are accurate in T.
    template <class T> static bool is_batch(const RowProblem<T> &problem) {
        const std::size_t n = static_cast<std::size_t>(problem.queries.rows),
                          m = static_cast<std::size_t>(problem.database.rows);
        return !problem.symmetric && n <= 2048 && n * m * sizeof(T) <= problem.memory_budget / 4;
    }

    /// \param windows whether near points are searched.
    /// \param sparse whether most weights may be zero.
    template <class T> RowPlan(const RowProblem<T> &problem, bool windows, bool sparse) {
        route = problem.listed()               ? Route::listed
                : windows                      ? Route::windows
                : is_small(problem)            ? Route::kept
                : !sparse && is_batch(problem) ? Route::batch
                                               : Route::whole;
        const Index n = problem.queries.rows, m = problem.database.rows, p = problem.queries.cols;
        const std::size_t budget = problem.memory_budget, sums = static_cast<std::size_t>(m) *
                                                                 static_cast<std::size_t>(p + 1) *
                                                                 sizeof(double);
        lanes = problem.lanes > 0 ? std::min(problem.lanes, most_lanes) : most_lanes;
        if (route == Route::whole) // each lane has an accumulator
            lanes = static_cast<Index>(std::clamp<std::size_t>(
                budget / 2 / std::max<std::size_t>(sums, 1), 1, static_cast<std::size_t>(lanes)));
        const std::size_t most = budget / 4 / most_lanes;
        memory =
            std::min(most, std::max(most / 8, static_cast<std::size_t>(m * p) * sizeof(double)));
        constexpr Index tile = TileShape<T>::rows;
        const std::size_t row = static_cast<std::size_t>(std::max<Index>(m, 1)) * sizeof(T);
        const std::size_t cached = (std::size_t(1) << 19) / row, allowed = budget / 16 / row;
        const Index rows =
            static_cast<Index>(std::min(std::max<std::size_t>(cached, 2 * tile), allowed));
        const Index share = (n + most_lanes - 1) / most_lanes; // every lane gets a block
        dense = std::max<Index>(tile, std::min({rows, 20 * tile, share + tile - 1}) / tile * tile);
        block = route == Route::listed ? 64 : route == Route::windows ? WindowSearch::block : dense;
    }
};

METRICFAST_NAMESPACE_END
