/// Matrix products, compiled only once, in products.cpp.
#pragma once

#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

#define METRICFAST_PRODUCTS(WHERE, T)                                                              \
    WHERE template void multiply<T>(View<const T>, View<const T>, View<T>);                        \
    WHERE template void multiply_nt<T>(View<const T>, View<const T>, View<T>);                     \
    WHERE template void multiply_tn<T>(View<const T>, View<const T>, View<T>);                     \
    WHERE template void multiply_tt<T>(View<const T>, View<const T>, View<T>);                     \
    WHERE template void add_product_nt<T>(View<const T>, View<const T>, View<T>);                  \
    WHERE template void add_product_tn<T>(View<const T>, View<const T>, View<T>);                  \
    WHERE template void add_product_tt<T>(View<const T>, View<const T>, View<T>);

METRICFAST_PRODUCTS(extern, float)
METRICFAST_PRODUCTS(extern, double)

} // namespace detail

METRICFAST_NAMESPACE_END
