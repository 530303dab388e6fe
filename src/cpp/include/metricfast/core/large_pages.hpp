/// Pages of two megabytes for large buffers, of which the system gives one where it would give 512.
#pragma once

#include <cstddef>
#include <cstdint>

#include "metricfast/core/config.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

METRICFAST_NAMESPACE_BEGIN

/// Asks for large pages for memory that nothing has been written to yet; without effect where it is
/// small, or the system has none.
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
