/// The kernels of the instruction set level in use, loaded at first use.
#pragma once

#include <pybind11/pybind11.h>

#include "dispatch/loaded.hpp"

namespace metricfast::python {

/// Throws ImportError if no level can be loaded.
inline const Kernels &kernels() {
    const Loaded &found = loaded();
    if (found.level == nullptr)
        throw pybind11::import_error(found.error);
    return found.level->kernels;
}

} // namespace metricfast::python
