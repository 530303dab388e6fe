/// Functions that register the bindings, one per group of kernels.
#pragma once

#include <pybind11/pybind11.h>

namespace metricfast::python {

void register_build(pybind11::module_ &m);
void register_embeddings(pybind11::module_ &m);
void register_distance(pybind11::module_ &m);
void register_engine(pybind11::module_ &m);
void register_inference(pybind11::module_ &m);
void register_losses(pybind11::module_ &m);
void register_itml(pybind11::module_ &m);
void register_constrained(pybind11::module_ &m);

} // namespace metricfast::python
