#include <string>

#include <pybind11/stl.h>

#include "common.hpp"
#include "kernels.hpp"

// threadpoolctl looks up these C symbols in the shared library. It finds the library once kernels
// are loaded.
extern "C" {

PYBIND11_EXPORT int metricfast_get_num_threads() {
    return metricfast::loaded().level->kernels.threads.default_threads();
}

/// A number of at least the default number of threads removes the limit.
PYBIND11_EXPORT void metricfast_set_num_threads(int threads) {
    const metricfast::ThreadKernels &all = metricfast::loaded().level->kernels.threads;
    all.set_limit(0);
    if (threads > 0 && threads < all.default_threads())
        all.set_limit(threads);
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
    info["isa"] = loaded().name;
    info["compiler"] = compiler();
    info["eigen"] = METRICFAST_EIGEN_VERSION;
    return info;
}

} // namespace

void register_build(py::module_ &m) {
    m.def("load", [] { kernels(); });
    m.def("available_isas", &available_levels);
    m.def("build_info", &build_info);
}

} // namespace metricfast::python
