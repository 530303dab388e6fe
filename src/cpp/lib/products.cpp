#include "products.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

METRICFAST_PRODUCTS(, float)
METRICFAST_PRODUCTS(, double)

} // namespace detail

METRICFAST_NAMESPACE_END
