/// A block of rows with lists of columns, and iteration over its entries.
#pragma once

#include <algorithm>
#include <vector>

#include "metricfast/core/cache.hpp"
#include "metricfast/core/types.hpp"
#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Lists of columns for the rows of a block, with one value per entry.
template <class T> class ListedRows {
  public:
    /// Row r's columns are columns[starts[r]] .. columns[starts[r + 1] - 1], below m. They are
    /// copied before they are checked, because the caller's arrays may change meanwhile.
    void set(Index count, const std::int64_t *starts, const std::int64_t *columns, Index m) {
        starts_.assign(starts, starts + count + 1);
        for (std::int64_t &start : starts_)
            start -= starts[0];
        columns_.assign(columns + starts[0], columns + starts[count]);
        columns_.reserve(1); // keeps data() non-null
        for (const std::int64_t column : columns_)
            require(column >= 0 && column < m, "row engine: a candidate is outside the database");
        // Rows are aligned: vectorised exp treats unaligned ends separately, and these round
        // differently.
        constexpr std::size_t line = 64 / sizeof(T);
        places_.assign(1, 0);
        for (Index r = 0; r < count; ++r)
            places_.push_back(places_[r] +
                              (static_cast<std::size_t>(size(r)) + line - 1) / line * line);
        values_.resize(places_.back());
    }

    Index size(Index r) const { return static_cast<Index>(starts_[r + 1] - starts_[r]); }
    const std::int64_t *columns(Index r) const { return columns_.data() + starts_[r]; }
    T *values(Index r) { return values_.data() + places_[r]; }

    /// Calls visit(r, column, value) for every entry, in stripes of ascending columns, so that the
    /// data of a stripe stays in the cache.
    /// \param m number of columns. \param bytes size of the data of a column.
    template <class Visit> void in_stripes(Index m, Index bytes, Visit &&visit) {
        constexpr Index worth_it = 16; // entries per row
        const Index count = static_cast<Index>(places_.size()) - 1;
        const Index listed = static_cast<Index>(columns_.size());
        const Index width = std::max(cached(bytes), worth_it * count * m / (listed + 1));
        reached_.assign(static_cast<std::size_t>(count), 0);
        for (Index stop = width; stop - width < m; stop += width)
            for (Index r = 0; r < count; ++r) {
                const std::int64_t *const of_row = columns(r);
                T *const of_entries = values(r);
                Index &e = reached_[r];
                for (const Index end = size(r); e < end && (of_row[e] < stop || stop >= m); ++e)
                    visit(r, static_cast<Index>(of_row[e]), of_entries[e]);
            }
    }

  private:
    std::vector<std::int64_t> starts_, columns_;
    std::vector<std::size_t> places_;
    std::vector<Index> reached_;
    AlignedVector<T> values_;
};

METRICFAST_NAMESPACE_END
