/// The row engine as the bindings of losses call it.
#pragma once

#include <string>
#include <vector>

#include "arrays.hpp"
#include "metricfast/row_engine.hpp"

namespace metricfast::python {

/// The engine is compiled once, in bind_engine.cpp, and not with each file of losses.
RowTotals value_and_gradient(const RowProblem<float> &problem, const RowLoss<float> &loss,
                             const Control &control, View<float> grad_queries,
                             View<float> grad_database);
RowTotals value_and_gradient(const RowProblem<double> &problem, const RowLoss<double> &loss,
                             const Control &control, View<double> grad_queries,
                             View<double> grad_database);

/// What every loss is called with, unpacked once.
struct Call {
    py::array queries;
    py::object database; ///< None: the queries themselves
    py::object exclude;
    py::object row_starts; ///< candidate lists, or None
    py::object columns;
    std::string reduction;
    py::array grad_queries;
    py::object grad_database;
    int threads;

    Index n() const { return queries.shape(0); }
    Index m() const { return database.is_none() ? n() : py::cast<py::array>(database).shape(0); }

    template <class T> py::tuple run(const RowLoss<T> &loss, RowKind kind = RowKind::distance) {
        RowProblem<T> problem;
        problem.kind = kind;
        problem.queries = matrix<T>(queries);
        problem.symmetric = database.is_none();
        problem.database =
            problem.symmetric ? problem.queries : matrix<T>(py::cast<py::array>(database));
        problem.exclude = elements<std::int64_t>(exclude, n(), "exclude");
        problem.candidates.row_starts = elements<std::int64_t>(row_starts, n() + 1, "row_starts");
        if (problem.candidates.row_starts != nullptr)
            problem.candidates.columns = elements<std::int64_t>(
                columns, static_cast<Index>(problem.candidates.row_starts[n()]), "columns");
        problem.reduction = reduction == "sum"    ? Reduction::sum
                            : reduction == "mean" ? Reduction::mean
                                                  : Reduction::mean_nonzero;
        const View<T> grad = writable<T>(grad_queries);
        View<T> other;
        py::array holder;
        if (!problem.symmetric) {
            holder = py::cast<py::array>(grad_database);
            other = writable<T>(holder);
        }
        RowTotals totals;
        const Control how = control(threads);
        {
            const py::gil_scoped_release release;
            totals = value_and_gradient(problem, loss, how, grad, other);
        }
        return py::make_tuple(totals.value, totals.terms, totals.anchors, totals.skipped,
                              totals.dropped);
    }
};

inline std::vector<std::int64_t> codes(const py::object &labels, Index size, const char *name) {
    const Codes data = elements<std::int64_t>(labels, size, name);
    return {data.begin(), data.end()};
}

} // namespace metricfast::python
