#include "arrays.hpp"
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

Ties ties_named(const std::string &name) {
    return name == "optimistic" ? Ties::optimistic
           : name == "label"    ? Ties::label
           : name == "nearest"  ? Ties::nearest
                                : Ties::pessimistic;
}

/// \param database points, a PreparedDatabase, or None if `queries` holds squared distances.
void infer(const py::array &queries, const py::object &database, const py::object &query_labels,
           const py::object &database_labels, Index k, Index classes, const py::object &loss_matrix,
           const std::string &ties, bool greedy, const py::object &exclude,
           const py::object &targeted, const py::object &augmented, const py::object &plain,
           const py::object &wrong, int threads) {
    const Index n = queries.shape(0);
    const bool prepared = py::isinstance<SharedDatabase>(database);
    const Index m = database.is_none() ? queries.shape(1)
                    : prepared         ? database.cast<const SharedDatabase &>().size()
                                       : py::cast<py::array>(database).shape(0);
    InferenceProblem problem;
    const Indices of_queries(query_labels, n, "query_labels");
    const Indices of_database(database_labels, m, "database_labels");
    const Indices excluded(exclude, n, "exclude");
    problem.query_labels = of_queries;
    problem.database_labels = of_database;
    problem.exclude = excluded;
    problem.options.k = k;
    problem.options.loss = {elements<double>(loss_matrix, classes * classes, "loss_matrix"),
                            classes};
    problem.options.ties = ties_named(ties);
    problem.options.greedy = greedy;
    problem.targeted = inference_output(targeted, n, k);
    problem.augmented = inference_output(augmented, n, k);
    if (!plain.is_none()) {
        auto losses = py::cast<py::array>(plain);
        problem.plain = writable_elements<double>(losses, n, "plain");
    }
    if (!wrong.is_none()) {
        auto flags = py::cast<py::array>(wrong);
        problem.wrong = writable_flags(flags, n, "wrong");
    }
    const Control run = control(threads);
    if (database.is_none()) {
        by_precision(queries, [&](auto zero) {
            const auto distances = matrix<decltype(zero)>(queries);
            const Released release;
            kernels().of<decltype(zero)>().search.infer(distances, problem, run);
        });
        return;
    }
    if (prepared) {
        const Points x = points(queries);
        const auto &search = database.cast<const SharedDatabase &>().get();
        const Released release;
        search.infer(x, problem, run);
        return;
    }
    const Points x = points(queries), y = points(py::cast<py::array>(database));
    const Released release;
    kernels().points.infer(x, y, problem, run);
}

} // namespace

void register_inference(py::module_ &m) { m.def("infer", &infer); }

} // namespace metricfast::python
