#include "common.hpp"
#include "engine_call.hpp"

namespace metricfast::python {

namespace {

/// \param weights one value per listed column.
RowTotals given(py::array queries, py::object database, const py::object &row_starts,
                const py::object &columns, py::array gradient, py::object database_gradient,
                int threads, const py::array &weights) {
    Call call(std::move(queries), std::move(database), std::move(gradient),
              std::move(database_gradient), threads);
    call.list(row_starts, columns);
    const Codes starts = call.candidates().row_starts;
    require(starts != nullptr, "row_starts and columns must list the weights");
    const auto make = [&](const auto &of) {
        using T = typename std::decay_t<decltype(of)>::Precision;
        const auto size = static_cast<Index>(starts[call.n()]);
        return of.sparse_weights(starts, elements<T>(weights, size, "weights"));
    };
    return call.run(make);
}

} // namespace

void register_engine(py::module_ &m) {
    const py::class_<Workspace> type(m, "Workspace");
    m.def("given", &given);
}

} // namespace metricfast::python
