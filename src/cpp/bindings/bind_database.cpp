#include "common.hpp"
#include "shared_database.hpp"

namespace metricfast::python {

void register_database(py::module_ &m) {
    py::class_<SharedDatabase>(m, "PreparedDatabase", py::module_local())
        .def("search", &SharedDatabase::search)
        .def("radius_neighbors", &SharedDatabase::radius_neighbors)
        .def("algorithm", &SharedDatabase::algorithm)
        .def("bytes", &SharedDatabase::bytes)
        .def("state", [](const py::object &self) {
            return py::cast<const SharedDatabase &>(self).state(self);
        });
    m.def("prepare_database",
          [](py::array points, bool integers, const std::string &metric, int threads) {
              return std::make_unique<SharedDatabase>(std::move(points), integers,
                                                      metric_of(metric), threads);
          });
    m.def("has_int8", [] { return kernels().points.has_int8(); });
    m.def("restore_database", [](py::dict state, const std::string &metric) {
        return std::make_unique<SharedDatabase>(std::move(state), metric_of(metric));
    });
}

} // namespace metricfast::python
