/// Tags instead of classes: a point may have several tags, or none.
#pragma once

#include <algorithm>
#include <functional>

#include "metricfast/losses/contrastive.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Class codes of the database relative to an anchor: 1 for points that share a tag with it, else
/// 0. The code of the anchor is 1.
class TagRows {
  public:
    explicit TagRows(Tags tags) : tags_(tags) {
        tags.check();
        own_.assign(static_cast<std::size_t>(tags.queries()), 1);
    }

    void check(Index n, Index m) const {
        require(tags_.queries() == n && tags_.database == m,
                "there must be tags for each query and each database point");
    }

    std::vector<std::int64_t> codes(Index anchor) const {
        std::vector<std::int64_t> found(static_cast<std::size_t>(tags_.database), 0);
        for (Index t = tags_.query_starts[anchor]; t < tags_.query_starts[anchor + 1]; ++t) {
            const Index tag = tags_.query_tags[t];
            for (Index j = tags_.member_starts[tag]; j < tags_.member_starts[tag + 1]; ++j)
                found[static_cast<std::size_t>(tags_.members[j])] = 1;
        }
        return found;
    }

    ClassLabels labels(const std::vector<std::int64_t> &codes) const {
        return {{own_.data(), static_cast<Index>(own_.size())},
                {codes.data(), static_cast<Index>(codes.size())}};
    }

  private:
    Tags tags_;
    std::vector<std::int64_t> own_;
};

/// A loss of classes for tags. For each anchor, the loss is rebuilt with two classes: related and
/// unrelated points. O(n + m) additional work per row, and no n x m matrix.
template <class T> class TagLoss : public RowLoss<T> {
  public:
    /// Called from several threads at once.
    using Make = std::function<std::unique_ptr<Loss<T>>(ClassLabels)>;

    TagLoss(Tags tags, Make make) : tags_(tags), rows_(tags), make_(std::move(make)) {
        const std::vector<std::int64_t> codes(static_cast<std::size_t>(tags.database), 1);
        const auto loss = loss_of(codes);
        kind_ = of_rows(*loss).kind();
        window_ = of_rows(*loss).window(tags.database);
        unit_ = of_rows(*loss).unit();
    }

    RowKind kind() const override { return kind_; }
    double window(Index) const override { return window_; }
    double unit() const override { return unit_; }
    void check(Index queries, Index database) const override { rows_.check(queries, database); }

    RowValue evaluate(Row<T> &row) const override {
        const auto codes = rows_.codes(row.anchor);
        return of_rows(*loss_of(codes)).evaluate(row);
    }

  private:
    std::unique_ptr<Loss<T>> loss_of(const std::vector<std::int64_t> &codes) const {
        auto loss = make_(rows_.labels(codes));
        require(loss != nullptr, "of_tags: make returned no loss");
        of_rows(*loss).check(tags_.queries(), tags_.database);
        return loss;
    }

    Tags tags_;
    TagRows rows_;
    Make make_;
    RowKind kind_;
    double window_, unit_;
};

/// For tags: the number of pairs, "all" or "active", in the mean of the contrastive loss.
template <class T>
typename ContrastiveLoss<T>::Pairs contrastive_pairs(Tags tags, ContrastiveSettings settings,
                                                     bool active, const RowProblem<T> &problem,
                                                     const Control &control) {
    using Pairs = typename ContrastiveLoss<T>::Pairs;
    const TagRows rows(tags);
    check(problem);
    rows.check(problem.queries.rows, problem.database.rows);
    if (active)
        return ContrastiveLoss<T>(settings, {})
            .active_pairs(problem, control, false, [&rows](Index i, std::vector<T> &scratch) {
                const auto codes = rows.codes(i);
                scratch.assign(codes.begin(), codes.end());
                return typename ContrastiveLoss<T>::Seen{scratch.data(), T(1)};
            });
    Pairs sum{0, 0};
    for (Index i = 0; i < problem.queries.rows; ++i) {
        const Index excluded = problem.excluded(i);
        const auto codes = rows.codes(i);
        Index related = std::count(codes.begin(), codes.end(), 1);
        related -= excluded >= 0 && codes[static_cast<std::size_t>(excluded)] == 1 ? 1 : 0;
        const Index others = tags.database - (excluded >= 0 ? 1 : 0) - related;
        sum[0] += problem.weight(i) * static_cast<double>(related);
        sum[1] += problem.weight(i) * static_cast<double>(others);
    }
    return sum;
}

METRICFAST_NAMESPACE_END
