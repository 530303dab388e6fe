/// Labels of queries and of database points.
#pragma once

#include "metricfast/engine/row_loss.hpp"
#include "metricfast/losses/types.hpp"
#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Values of database points (labels, targets, weights) as T, with room for a last partial
/// register.
template <class T, class U> std::vector<T> padded(Span<const U> values) {
    std::vector<T> result(values.begin(), values.end());
    result.resize(result.size() + static_cast<std::size_t>(Vec<T>::width), T(-1));
    return result;
}

/// Those of the row's columns, side by side: a listed row gathers them in `scratch`, a whole row
/// has them so already.
template <class T>
const T *of_columns(const Row<T> &row, const std::vector<T> &values, std::vector<T> &scratch) {
    if (row.columns == nullptr)
        return values.data();
    scratch.resize(static_cast<std::size_t>(row.count));
    for (Index r = 0; r < row.count; ++r)
        scratch[r] = values[row.columns[r]];
    return scratch.data();
}

/// Lists of the database rows of each class.
class ClassMembers {
  public:
    explicit ClassMembers(ClassLabels labels) : labels_(labels) {
        for (Index j = 0; j < labels.database.size(); ++j) {
            require(labels.database[j] >= 0, "class codes must not be negative");
            const auto label = static_cast<std::size_t>(labels.database[j]);
            if (label >= members_.size())
                members_.resize(label + 1);
            members_[label].push_back(j);
        }
    }

    void check(Index n, Index m) const { labels_.check(n, m); }

    /// Database rows of the anchor's class.
    const std::vector<Index> &of(Index anchor) const {
        const std::int64_t label = labels_.queries[anchor];
        const bool known = label >= 0 && label < static_cast<std::int64_t>(members_.size());
        return known ? members_[static_cast<std::size_t>(label)] : none_;
    }

    /// Whether the database point that is left out of the row, if there is one, is of the anchor's
    /// class.
    template <class T> bool excludes_own(const Row<T> &row) const {
        return row.excluded >= 0 && labels_.database[row.excluded] == labels_.queries[row.anchor];
    }

  private:
    ClassLabels labels_;
    std::vector<std::vector<Index>> members_;
    std::vector<Index> none_;
};

METRICFAST_NAMESPACE_END
