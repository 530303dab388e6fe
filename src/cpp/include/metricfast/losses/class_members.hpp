/// Database points by class.
#pragma once

#include "metricfast/losses/row_loss.hpp"
#include "metricfast/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Lists of the database rows of each class; classes are codes from 0 on.
class ClassMembers {
  public:
    ClassMembers(Codes query_labels, Codes database_labels)
        : query_labels_(query_labels), points_(database_labels.size()) {
        for (Index j = 0; j < points_; ++j) {
            require(database_labels[j] >= 0, "class codes must not be negative");
            const auto label = static_cast<std::size_t>(database_labels[j]);
            if (label >= members_.size())
                members_.resize(label + 1);
            members_[label].push_back(j);
        }
    }

    void check(Index queries, Index database) const {
        require(query_labels_.size() == queries && points_ == database,
                "there must be one label for each query and each database point");
    }

    /// Database rows of the anchor's class.
    const std::vector<Index> &of(Index anchor) const {
        const std::int64_t label = query_labels_[anchor];
        const bool known = label >= 0 && label < static_cast<std::int64_t>(members_.size());
        return known ? members_[static_cast<std::size_t>(label)] : none_;
    }

  private:
    Codes query_labels_;
    Index points_;
    std::vector<std::vector<Index>> members_;
    std::vector<Index> none_;
};

METRICFAST_NAMESPACE_END
