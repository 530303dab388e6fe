#include "casters.hpp"
#include "common.hpp"
#include "shared_database.hpp"

namespace metricfast::python {

namespace {

/// \param single whether distances are float32.
py::object radius_neighbors(const Points &queries, const Points &database, const Maps &maps,
                            const RadiusSettings &settings, const Control &run, Metric metric,
                            bool single) {
    const auto search = [&](auto zero) {
        const auto found = [&] {
            const Released release;
            return kernels().of<decltype(zero)>().search.radius_neighbors(queries, database, maps,
                                                                          settings, run, metric);
        };
        return py::cast(found());
    };
    return single ? search(float{}) : search(double{});
}

} // namespace

#define METRICFAST_BIND_THREADS(name) METRICFAST_BIND(name, threads)
#define METRICFAST_BIND_POINTS(name) METRICFAST_BIND(name, points)
#define METRICFAST_BIND_SEARCH(name) METRICFAST_BIND_OF_T(name, search)

void register_distance(py::module_ &m) {
    PYBIND11_NUMPY_DTYPE(RankSummary, first, hits, precisions_of_hits, precisions);
    METRICFAST_THREAD_KERNELS(METRICFAST_BIND_THREADS)
    METRICFAST_POINT_FUNCTIONS(METRICFAST_BIND_POINTS)
    METRICFAST_SEARCH_FUNCTIONS(METRICFAST_BIND_SEARCH)
    METRICFAST_BIND_OF_T(kneighbors_per_class, database)
    METRICFAST_BIND_OF_T(soft_votes, database)
    m.def("radius_neighbors", &radius_neighbors);
    // In the precision of an array.
    m.def("pairwise_block", [](const py::array &out) {
        return by_precision(
            out, [](auto zero) { return kernels().of<decltype(zero)>().search.pairwise_block(); });
    });
    m.def("most_cancelled", [](const py::array &out, Index rows, Index columns) {
        return by_precision(out, [&](auto zero) {
            return kernels().of<decltype(zero)>().search.most_cancelled(rows, columns);
        });
    });
    py::class_<SharedDatabase>(m, "PreparedDatabase", py::module_local())
        .def("search", &SharedDatabase::search<float>)
        .def("search", &SharedDatabase::search<double>)
        .def("radius_neighbors", &SharedDatabase::radius_neighbors)
        .def("algorithm", &SharedDatabase::algorithm)
        .def("bytes", &SharedDatabase::bytes)
        .def("state", [](const py::object &self) {
            return py::cast<const SharedDatabase &>(self).state(self);
        });
    m.def("prepare_database", [](py::array points, bool integers, Metric metric, int threads) {
        return std::make_unique<SharedDatabase>(std::move(points), integers, metric, threads);
    });
    m.def("restore_database", [](py::dict state, Metric metric) {
        return std::make_unique<SharedDatabase>(std::move(state), metric);
    });
    py::register_exception_translator([](std::exception_ptr error) {
        try {
            if (error)
                std::rethrow_exception(error);
        } catch (const Cancelled &) {
            if (!PyErr_Occurred())
                PyErr_SetNone(PyExc_KeyboardInterrupt);
        }
    });
}

} // namespace metricfast::python
