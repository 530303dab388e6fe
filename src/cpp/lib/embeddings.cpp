/// Embeddings and steps of solvers.
#include "areas.hpp"
#include "metricfast/embeddings/linear.hpp"
#include "metricfast/embeddings/optimizer.hpp"
#include "models.hpp"

METRICFAST_NAMESPACE_BEGIN

METRICFAST_TABLE_OF_T(EmbeddingKernels, METRICFAST_EMBEDDING_KERNELS, embedding_kernels)

METRICFAST_MODEL_EMBEDDINGS(, float)
METRICFAST_MODEL_EMBEDDINGS(, double)

METRICFAST_NAMESPACE_END
