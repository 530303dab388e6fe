#include "common.hpp"

// Calls share only objects that lock themselves, so the module supports free-threaded Python.
PYBIND11_MODULE(_kernels, m, pybind11::mod_gil_not_used()) {
    using namespace metricfast::python;
    register_build(m);
    register_embeddings(m);
    register_distance(m);
    register_engine(m);
    register_inference(m);
    register_losses(m);
    register_itml(m);
    register_constrained(m);
}
