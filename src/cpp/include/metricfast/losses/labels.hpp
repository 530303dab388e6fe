/// Labels of queries and of database points.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "metricfast/core/class_numbers.hpp"
#include "metricfast/engine/row_loss.hpp"
#include "metricfast/losses/types.hpp"
#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Class codes of queries and database points, exactly representable in float.
class ClassCodes : public ClassNumbers {
  public:
    ClassCodes(ClassLabels labels) : ClassNumbers(labels.queries, labels.database) {
        require(classes <= std::int64_t(1) << 24, "there are more than 2^24 classes");
    }

    void check(Index n, Index m) const { ClassLabels{queries, database}.check(n, m); }
};

/// Values of database points (labels, targets, weights) as T, padded to whole registers.
template <class T, class U> std::vector<T> padded(Span<const U> values) {
    std::vector<T> result(values.begin(), values.end());
    result.resize(result.size() + static_cast<std::size_t>(Vec<T>::width), T(-1));
    return result;
}

/// The values of the row's columns, contiguous, padded for a last partial register. A listed row
/// gathers them in `scratch`.
template <class T>
const T *of_columns(const Row<T> &row, const std::vector<T> &values, std::vector<T> &scratch) {
    if (row.columns == nullptr)
        return values.data();
    scratch.resize(static_cast<std::size_t>(row.count) + static_cast<std::size_t>(Vec<T>::width));
    for (Index r = 0; r < row.count; ++r)
        scratch[r] = values[row.columns[r]];
    return scratch.data();
}

/// Lists of the database rows of each class.
class ClassMembers {
  public:
    explicit ClassMembers(ClassCodes labels) : labels_(std::move(labels)) {
        for (Index j = 0; j < labels_.database.size(); ++j) {
            const auto label = static_cast<std::size_t>(labels_.database[j]);
            if (label >= members_.size())
                members_.resize(label + 1);
            members_[label].push_back(j);
        }
    }

    void check(Index n, Index m) const { labels_.check(n, m); }

    /// Database rows of the anchor's class.
    const std::vector<Index> &of(Index anchor) const {
        const std::int64_t label = labels_.queries[anchor];
        const bool known = label < static_cast<std::int64_t>(members_.size());
        return known ? members_[static_cast<std::size_t>(label)] : none_;
    }

    /// Returns whether the excluded database point, if any, has the anchor's class.
    template <class T> bool excludes_own(const Row<T> &row) const {
        return row.excluded >= 0 && labels_.database[row.excluded] == labels_.queries[row.anchor];
    }

  private:
    ClassCodes labels_;
    std::vector<std::vector<Index>> members_;
    std::vector<Index> none_;
};

METRICFAST_NAMESPACE_END
