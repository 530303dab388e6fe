#include "common.hpp"
#include "engine_call.hpp"
#include "metricfast/engine/row_engine.hpp"
#include "metricfast/losses/given.hpp"

namespace metricfast::python {

RowTotals value_and_gradient(const RowProblem<float> &problem, const RowLoss<float> &loss,
                             const Control &control, View<float> grad_queries,
                             View<float> grad_database, RowScratch<float> *scratch) {
    return RowEngine<float>(problem, loss, control, scratch)
        .value_and_gradient(grad_queries, grad_database);
}

RowTotals value_and_gradient(const RowProblem<double> &problem, const RowLoss<double> &loss,
                             const Control &control, View<double> grad_queries,
                             View<double> grad_database, RowScratch<double> *scratch) {
    return RowEngine<double>(problem, loss, control, scratch)
        .value_and_gradient(grad_queries, grad_database);
}

namespace {

/// `weights`: a matrix, or the values of lists of columns.
py::tuple given(py::array queries, py::object database, const py::object &row_starts,
                const py::object &columns, py::array gradient, py::object database_gradient,
                int threads, const py::array &weights) {
    Call call(std::move(queries), std::move(database), std::move(gradient),
              std::move(database_gradient), threads);
    call.list(row_starts, columns);
    const Codes starts = call.candidates().row_starts;
    if (starts == nullptr)
        return call.run([&](auto zero) {
            using T = decltype(zero);
            return DenseWeightsLoss<T>(matrix<T>(weights));
        });
    return call.run([&](auto zero) {
        using T = decltype(zero);
        return SparseWeightsLoss<T>(
            starts, elements<T>(weights, static_cast<Index>(starts[call.n()]), "weights"));
    });
}

} // namespace

void register_engine(py::module_ &m) {
    const py::class_<Workspace> workspace(m, "Workspace");
    m.def(
        "workspace", [] { return std::make_unique<Workspace>(); },
        "Memory that calls of a loss use one after the other.");
    m.def("given", &given, py::arg("queries"), py::arg("database"), py::arg("row_starts"),
          py::arg("columns"), py::arg("gradient"), py::arg("database_gradient"), py::arg("threads"),
          py::arg("weights"));
}

} // namespace metricfast::python
