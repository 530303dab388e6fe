#include "casters.hpp"
#include "common.hpp"
#include "shared_database.hpp"

namespace metricfast::python {

namespace {

/// Views the output arrays (indices, values, deltas, feasible). None skips an output.
InferenceOutput inference_output(const py::object &arrays, Index n, Index k) {
    if (arrays.is_none())
        return {};
    const auto parts = py::cast<py::tuple>(arrays);
    auto part = [&](std::size_t i) { return py::cast<py::array>(parts[i]); };
    py::array indices = part(0), values = part(1), deltas = part(2), feasible = part(3);
    return {writable_elements<std::int64_t>(indices, n * k, "indices"),
            writable_elements<double>(values, n, "values"),
            writable_elements<double>(deltas, n, "delta"), writable_flags(feasible, n, "feasible")};
}

/// \param database points, a PreparedDatabase, or None if `queries` holds squared distances.
void infer(const py::array &queries, const py::object &database, Codes query_labels,
           Codes database_labels, const InferenceOptions &options, Codes exclude,
           const py::object &targeted, const py::object &augmented, Span<double> plain,
           Span<std::uint8_t> wrong, const Control &run) {
    const Index n = queries.shape(0), k = options.k;
    const InferenceProblem problem{query_labels,
                                   database_labels,
                                   exclude,
                                   options,
                                   inference_output(targeted, n, k),
                                   inference_output(augmented, n, k),
                                   plain,
                                   wrong};
    if (database.is_none()) {
        by_precision(queries, [&](auto zero) {
            const auto distances = matrix<decltype(zero)>(queries);
            const Released release;
            kernels().of<decltype(zero)>().search.infer_from_distances(distances, problem, run);
        });
        return;
    }
    const Points x = points(queries);
    if (py::isinstance<SharedDatabase>(database)) {
        const SearchDatabase &prepared = database.cast<const SharedDatabase &>().get();
        const Released release;
        kernels().points.infer_prepared(x, prepared, problem, run);
        return;
    }
    const Points y = points(py::cast<py::array>(database));
    const Released release;
    kernels().points.infer(x, y, problem, run);
}

} // namespace

void register_inference(py::module_ &m) { m.def("infer", &infer); }

} // namespace metricfast::python
