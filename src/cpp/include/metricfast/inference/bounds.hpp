/// Upper bounds of the distances in a query's best sets, from the nearest points of some classes.
///
/// The points of a class enter by the upper bounds of their distances, ascending. Let k be the size
/// of the sets and y the query's class. The distance of a member is at most
/// - in targeted sets whose winner has m votes: the (k - m)-th distance of the points that the
///   set may contain besides the winner's, with the number of points of each class limited by the
///   vote. The bound grows as m decreases. It excludes the classes that a vote may choose; their k
///   nearest points are candidates anyway. The winner's k-th distance is a bound, too, because that
///   point could replace the member.
/// - in augmented sets: C - Delta + max Delta - sum, for a known set of cost C - Delta and the sum
///   of the k - 1 nearest distances. A set whose vote is wrong has at most k / 2 points of y, so
///   the sum may be over the k - 1 nearest points with at most k / 2 of y.
/// Adding classes only lowers the bounds of targeted sets. It also lowers the k - 1 nearest
/// distances, but this raises the bounds of augmented sets. So only the end of a search shows that
/// it sufficed.
#pragma once

#include <algorithm>
#include <numeric>

#include "metricfast/inference/problem.hpp"
#include "metricfast/search/screen.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// The smallest distances of some points, ascending.
template <class S> class Nearest {
  public:
    struct Item {
        S distance;
        std::int32_t label;
    };

    void reset(Index capacity) {
        items_.clear();
        capacity_ = static_cast<std::size_t>(std::max<Index>(0, capacity));
    }

    /// Adds the first `count` ascending distances of one class; returns whether any of them is
    /// kept.
    bool add(const std::vector<S> &distances, Index count, Index label) {
        if (capacity_ == 0 || count <= 0 || distances.empty() || !(distances[0] < last()))
            return false;
        insert(distances, count, label);
        return true;
    }

    bool full() const { return items_.size() == capacity_; }
    const std::vector<Item> &items() const { return items_; }

    /// The largest distance in the list once it is full; -inf for a list of size zero.
    S last() const {
        if (!full())
            return std::numeric_limits<S>::infinity();
        return items_.empty() ? -std::numeric_limits<S>::infinity() : items_.back().distance;
    }

    /// The sum of the nearest `count` that are not of class `without`; infinite if there are fewer.
    double sum(Index count, Index without = -1) const {
        double sum = 0;
        for (std::size_t i = 0; i < items_.size() && count > 0; ++i)
            if (items_[i].label != without) {
                sum += static_cast<double>(items_[i].distance);
                --count;
            }
        return count > 0 ? std::numeric_limits<double>::infinity() : sum;
    }

  private:
    void insert(const std::vector<S> &distances, Index count, Index label) {
        const std::size_t most = std::min(distances.size(), static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < most; ++i) {
            if (items_.size() < capacity_)
                items_.push_back({});
            else if (!(distances[i] < items_.back().distance))
                break;
            std::size_t at = items_.size() - 1;
            for (; at > 0 && distances[i] < items_[at - 1].distance; --at)
                items_[at] = items_[at - 1];
            items_[at] = {distances[i], static_cast<std::int32_t>(label)};
        }
    }

    std::vector<Item> items_;
    std::size_t capacity_ = 0;
};

} // namespace detail

/// The task that all queries of one class share.
struct VoteTask {
    Index y = 0;
    Index k = 0;
    VoteLoss loss;
    Ties ties = Ties::pessimistic;
    bool targeted = false;  ///< compute targeted sets
    bool augmented = false; ///< compute augmented sets
    bool sole = true;       ///< only one answer has zero cost
    Index fewest = 1;       ///< smallest number of votes of a right winner
    double scale = 1;       ///< scale of the distances

    /// \param sizes of the classes in the database.
    VoteTask(const InferenceProblem &problem, Index label, const std::vector<Index> &sizes,
             double scale_)
        : y(label), k(problem.options.k), loss(problem.options.loss), ties(problem.options.ties),
          targeted(problem.targeted.wanted()), augmented(problem.augmented.wanted()),
          scale(scale_) {
        for (Index r = 0; loss.matrix != nullptr && r < loss.classes; ++r)
            sole = sole && (r == y || loss(y, r) != 0);
        // A set of more points than there are has no right winner.
        if (k > std::accumulate(sizes.begin(), sizes.end(), Index(0)))
            fewest = k;
        for (; fewest < k; ++fewest) {
            Index votes = 0;
            for (Index c = 0; c < loss.classes; ++c)
                votes += std::min(sizes[c],
                                  right(c) || (ties == Ties::label && !sole) ? fewest : beside(c));
            if (votes >= k)
                break;
        }
    }

    bool right(Index c) const { return loss(y, c) == 0; }
    double cost(Index c) const { return in_frame(loss(y, c)); }
    double largest() const { return in_frame(loss.largest(y)); }
    /// A cost in the unit of squared distances, at most 1e30: above it, distances are below its
    /// rounding error.
    double in_frame(double cost) const { return std::min(cost * scale * scale, 1e30); }
    /// Maximum number of points of a wrong answer besides the fewest votes, for any right answer.
    Index beside(Index c) const {
        const bool level = ties == Ties::optimistic || (ties == Ties::label && sole && c > y);
        return level ? fewest : fewest - 1;
    }
};

/// The bounds of one query. Distances and costs have one unit; |query|^2 may be subtracted from
/// all.
template <class S> class SetBounds {
  public:
    /// \param task must outlive this object.
    void reset(const VoteTask &task) {
        task_ = &task;
        winners_ = -std::numeric_limits<S>::infinity();
        known_ = std::numeric_limits<double>::infinity();
        forget_points();
    }

    /// Clears the points and keeps the bounds from known sets.
    void forget_points() {
        const Index k = task_->k;
        nearest_.reset(k);
        wrong_.reset(k - 1);
        rivals_.reset(k - task_->fewest);
        majorities_.resize(static_cast<std::size_t>(std::min<Index>(4, k / 2 + 1)));
        for (std::size_t i = 0; i < majorities_.size(); ++i) {
            majorities_[i].others.reset(k);
            majorities_[i].votes = k / 2 + 1 - static_cast<Index>(i);
            majorities_[i].winner = -1;
            majorities_[i].cost = std::numeric_limits<double>::infinity();
        }
    }

    /// \param uppers of at most k points of class c, ascending.
    /// \param votes zero for every class, on entry and on return.
    void add(Index c, const std::vector<S> &uppers, std::vector<Index> &votes) {
        const Index k = task_->k;
        const bool nearer = nearest_.add(uppers, k, c);
        if (!task_->right(c))
            rivals_.add(uppers, task_->beside(c), c);
        if (!task_->augmented)
            return;
        wrong_.add(uppers, c == task_->y ? k / 2 : k, c);
        for (Majority &majority : majorities_)
            improve(majority, c, uppers);
        if (nearer && nearest_.full())
            known_ = std::min(known_, nearest_.sum(k) - vote(votes));
    }

    /// \param uppers of the k nearest points (or all) of class c, which is a right answer.
    void add_winner(const std::vector<S> &uppers) {
        if (!uppers.empty())
            winners_ = std::max(winners_, static_cast<Index>(uppers.size()) == task_->k
                                              ? above<S>(static_cast<double>(uppers.back()))
                                              : std::numeric_limits<S>::infinity());
    }

    /// Bound of the k nearest points.
    S nearest() const { return just_above(nearest_.last()); }

    /// Bound of members of wrong classes in targeted sets, unless ties go to the nearest.
    S targeted() const { return std::min(winners_, just_above(rivals_.last())); }

    /// Bound of all members of targeted sets.
    S winners() const { return winners_; }

    /// Bound of all members of augmented sets.
    /// \param error of the sum of k of the points' bounds.
    /// \param margin for nearer points that are not yet known, relative to the gap between the
    ///   bound and the nearest points.
    S augmented(double error, double margin) const {
        return std::min(augmented(nearest_, error, margin / 4, -1),
                        augmented(wrong_, error, margin, task_->y));
    }

  private:
    static S just_above(S last) {
        return std::isfinite(last) ? above<S>(static_cast<double>(last)) : last;
    }

    S augmented(const detail::Nearest<S> &nearest, double error, double margin, Index known) const {
        if (!nearest.full())
            return std::numeric_limits<S>::infinity();
        const double left = known_ + task_->largest() - nearest.sum(task_->k - 1);
        // Distances may be smaller than the rounding error of the vote's cost.
        const double rounding = (static_cast<double>(task_->k) + 2) *
                                std::numeric_limits<double>::epsilon() * task_->largest();
        double bound = std::max(left + error + rounding, static_cast<double>(nearest.last()));
        const auto &items = nearest.items();
        const auto first = std::find_if(items.begin(), items.end(),
                                        [&](const auto &item) { return item.label != known; });
        if (margin > 0 && first != items.end())
            bound += margin * std::max(0.0, bound - static_cast<double>(first->distance));
        return above<S>(bound);
    }

    /// Sets in which a wrong class wins with a given number of votes.
    struct Majority {
        detail::Nearest<S> others; ///< of each class at most as many as the winner allows
        Index votes;
        Index winner; ///< -1 for none
        double cost;  ///< sum of the winner's points minus the cost of its vote
    };

    void improve(Majority &majority, Index c, const std::vector<S> &uppers) {
        const Index m = majority.votes;
        bool better = majority.others.add(uppers, task_->ties == Ties::pessimistic ? m : m - 1, c);
        if (!task_->right(c) && static_cast<Index>(uppers.size()) >= m) {
            double cost = -task_->cost(c);
            for (Index i = 0; i < m; ++i)
                cost += static_cast<double>(uppers[i]);
            if (cost < majority.cost) {
                majority.cost = cost;
                majority.winner = c;
                better = true;
            }
        }
        if (better && majority.winner >= 0)
            known_ = std::min(known_,
                              majority.cost + majority.others.sum(task_->k - m, majority.winner));
    }

    /// Lower bound of the cost of the nearest points' vote.
    double vote(std::vector<Index> &votes) const {
        Index most = 0;
        for (const auto &item : nearest_.items())
            most = std::max(most, ++votes[item.label]);
        const bool pessimistic = task_->ties == Ties::pessimistic;
        double cost = pessimistic ? 0.0 : std::numeric_limits<double>::infinity();
        for (const auto &item : nearest_.items())
            if (votes[item.label] == most)
                cost = pessimistic ? std::max(cost, task_->cost(item.label))
                                   : std::min(cost, task_->cost(item.label));
        for (const auto &item : nearest_.items())
            votes[item.label] = 0;
        return cost;
    }

    const VoteTask *task_ = nullptr;
    detail::Nearest<S> nearest_; ///< the k nearest of all classes
    detail::Nearest<S> wrong_;   ///< the k - 1 nearest with at most k / 2 of the query's class
    detail::Nearest<S> rivals_;  ///< points that a targeted set may contain besides the winner's
    std::vector<Majority> majorities_;
    S winners_;
    double known_; ///< sum of the distances of some set minus the cost of its vote
};

METRICFAST_NAMESPACE_END
