#include <string>

#include "common.hpp"
#include "metricfast/core/parallel.hpp"

// Plain symbols, which threadpoolctl looks for in the shared library.
extern "C" {

PYBIND11_EXPORT int metricfast_get_num_threads() { return metricfast::default_threads(); }

/// As many as there would be anyway, or more: no limit.
PYBIND11_EXPORT void metricfast_set_num_threads(int threads) {
    metricfast::thread_limit = 0;
    if (threads > 0 && threads < metricfast::default_threads())
        metricfast::thread_limit = threads;
}

PYBIND11_EXPORT const char *metricfast_get_version() { return METRICFAST_VERSION; }
}

namespace metricfast::python {

namespace py = pybind11;

namespace {

std::string compiler() {
#if defined(__clang__)
    return "Clang " __clang_version__;
#elif defined(__GNUC__)
    return "GCC " __VERSION__;
#else
    return "MSVC " + std::to_string(_MSC_FULL_VER);
#endif
}

py::dict build_info() {
    py::dict info;
    info["version"] = METRICFAST_VERSION;
    info["isa"] = METRICFAST_MODULE_ISA;
    info["compiler"] = compiler();
    info["eigen"] = METRICFAST_EIGEN_VERSION;
    return info;
}

} // namespace

void register_build(py::module_ &m) { m.def("build_info", &build_info); }

} // namespace metricfast::python
