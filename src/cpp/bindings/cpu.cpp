/// Which levels there are, as a module that is built for any processor.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "cpu/levels.hpp"

PYBIND11_MODULE(_cpu, m, pybind11::mod_gil_not_used()) {
    m.def("supported_levels", &metricfast::supported_levels);
}
