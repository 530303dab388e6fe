/// Sums of hinges of an anchor's distances.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A distance plus the margin, and the number of smaller distances.
template <class T> struct HingeLimit {
    T value;
    Index column;
    Index above = 0;
};

/// Returns the sum of the hinges [limit - x_j]_+ of all limits and columns, and replaces x_j by
/// `unit` times the number of limits above it.
/// \param limits largest first.
/// \param change changes a register of x, given its first column, before all else.
template <class T, class Change>
METRICFAST_NOINLINE double sum_hinges(T *x, Index size, std::vector<HingeLimit<T>> &limits,
                                      double unit, Change change) {
    using V = Vec<T>;
    constexpr Index stretch = 512; // columns whose hinges are summed in T
    const V zero = V::broadcast(T(0)), one = V::broadcast(T(1));
    const V factor = V::broadcast(static_cast<T>(unit));
    const V largest = V::broadcast(limits.front().value);
    double result = 0;
    for (Index first = 0; first < size; first += stretch) {
        T *const values = x + first;
        const Index count = std::min(stretch, size - first);
        // Registers with hinges are listed first: a branch for each would be unpredictable.
        T changed[stretch];
        Index active[stretch / V::width], listed = 0;
        detail::for_registers(
            values, count,
            [&](V d, Index j) METRICFAST_INLINE {
                d = change(d, first + j);
                d.store(changed + j);
                active[listed] = j;
                listed += less(d, largest) != 0;
                return zero;
            },
            std::numeric_limits<T>::infinity());
        V sum = zero;
        for (Index a = 0; a < listed; ++a) {
            const Index j = active[a];
            const V d = V::load(changed + j);
            V times = zero, hinges = zero;
            for (HingeLimit<T> &limit : limits) {
                const V at = V::broadcast(limit.value);
                hinges = hinges + max(at - d, zero);
                times = times + where_less(d, at, one);
                limit.above += set_bits(less(d, at));
            }
            sum = sum + hinges;
            (factor * times).store(changed + j);
            std::copy(changed + j, changed + std::min(j + V::width, count), values + j);
        }
        result += horizontal_sum(sum);
    }
    return result;
}

METRICFAST_NAMESPACE_END
