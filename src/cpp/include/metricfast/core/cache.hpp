/// Sizes of blocks of data that stay in a cache.
#pragma once

#include <algorithm>

#include "metricfast/core/views.hpp"

namespace metricfast {

/// Bytes of the second-level cache for data that are read again.
inline constexpr Index cache_bytes = Index(1) << 18;

/// The number of items of a size that fit in the cache, at least 1.
inline constexpr Index cached(Index bytes) {
    return std::max<Index>(1, cache_bytes / std::max<Index>(1, bytes));
}

} // namespace metricfast
