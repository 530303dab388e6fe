/// Polynomials of whole registers.
#pragma once

#include <cstddef>

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// \param coefficients in ascending order of the power of u.
template <class T, std::size_t N>
METRICFAST_INLINE inline Vec<T> polynomial(const T (&coefficients)[N], Vec<T> u) {
    Vec<T> sum = Vec<T>::broadcast(coefficients[N - 1]);
    for (std::size_t i = N - 1; i > 0; --i)
        sum = fma(sum, u, Vec<T>::broadcast(coefficients[i - 1]));
    return sum;
}

} // namespace detail

METRICFAST_NAMESPACE_END
