#include "casters.hpp"
#include "common.hpp"

namespace metricfast::python {

#define METRICFAST_BIND_EMBEDDING(name) METRICFAST_BIND_OF_T(name, embeddings)
void register_embeddings(py::module_ &m) { METRICFAST_EMBEDDING_KERNELS(METRICFAST_BIND_EMBEDDING) }

} // namespace metricfast::python
