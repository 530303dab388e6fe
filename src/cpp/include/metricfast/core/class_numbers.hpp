/// Numbers of classes in place of labels, which may be large.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "metricfast/core/config.hpp"
#include "metricfast/core/views.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Labels of queries and database points, as numbers in the order of the labels: the labels
/// themselves, or if one is not below the number of all points, their ranks.
class ClassNumbers {
  public:
    ClassNumbers() = default;
    ClassNumbers(Codes queries_, Codes database_) : queries(queries_), database(database_) {
        const auto all = [&](auto &&f) {
            std::for_each(queries.begin(), queries.end(), f);
            std::for_each(database.begin(), database.end(), f);
        };
        std::int64_t least = 0, most = -1;
        all([&](std::int64_t label) {
            least = std::min(least, label);
            most = std::max(most, label);
        });
        require(least >= 0, "labels of classes must not be negative");
        const Index count = queries.size() + database.size();
        if (most >= count) {
            std::vector<std::int64_t> names, ranks;
            names.reserve(static_cast<std::size_t>(count));
            all([&](std::int64_t label) { names.push_back(label); });
            std::sort(names.begin(), names.end());
            names.erase(std::unique(names.begin(), names.end()), names.end());
            ranks.reserve(static_cast<std::size_t>(count));
            all([&](std::int64_t label) {
                ranks.push_back(std::lower_bound(names.begin(), names.end(), label) -
                                names.begin());
            });
            most = static_cast<std::int64_t>(names.size()) - 1;
            own_ = std::make_shared<const std::vector<std::int64_t>>(std::move(ranks));
            queries = {own_->data(), queries.size()};
            database = {own_->data() + queries.size(), database.size()};
        }
        classes = static_cast<Index>(most + 1);
    }

    Codes queries, database;
    Index classes = 0; ///< above every number

  private:
    std::shared_ptr<const std::vector<std::int64_t>> own_; ///< null if labels are the numbers
};

METRICFAST_NAMESPACE_END
