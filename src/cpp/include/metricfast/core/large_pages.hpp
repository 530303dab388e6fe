/// Pages of 2 MB for large buffers. Each replaces 512 ordinary pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "metricfast/core/config.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

METRICFAST_NAMESPACE_BEGIN

/// Requests large pages for memory that has not been written yet. Has no effect on small buffers
/// and on systems without large pages.
inline void prefer_large_pages(void *data, std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr std::uintptr_t page = std::uintptr_t{1} << 21;
    if (bytes < 2 * page)
        return;
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t first = (begin + page - 1) / page * page;
    const std::uintptr_t last = (begin + bytes) / page * page;
    madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
#else
    (void)data;
    (void)bytes;
#endif
}

METRICFAST_NAMESPACE_END
