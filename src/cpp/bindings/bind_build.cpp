#include <string>

#include "common.hpp"

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
