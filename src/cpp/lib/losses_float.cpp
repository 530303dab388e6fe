/// Losses of the row engine in float.
#include "losses.hpp"

METRICFAST_NAMESPACE_BEGIN

template const LossKernels<float> &loss_kernels();

METRICFAST_NAMESPACE_END
