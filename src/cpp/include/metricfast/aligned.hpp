/// Elementwise arithmetic whose result does not depend on where in memory the elements are.
#pragma once

#include <algorithm>

#include "metricfast/types.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Values that are computed with where they are aligned, a fixed number at a time: vectorised and
/// other code round differently, so that results must not depend on where in memory values begin.
template <class T> class Aligned {
  public:
    static constexpr Index size = 512;
    using Values = Eigen::Array<T, size, 1>;

    /// The `count` values at `from`, and zeros.
    void read(const T *from, Index count) {
        std::copy(from, from + count, values.data());
        std::fill(values.data() + count, values.data() + size, T(0));
    }
    void write(T *to, Index count) const { std::copy(values.data(), values.data() + count, to); }

    Values values;
};

} // namespace detail

METRICFAST_NAMESPACE_END
