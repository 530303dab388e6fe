/// Exact inference for one query: the best sets of k neighbours whose vote is right, or costs most.
///
/// For a query of class y and a set h of k database points, S(h) = -sum of their squared distances
/// and Delta(y, h) is the cost of the vote of h. *Targeted* inference finds the h of largest S(h)
/// with Delta(y, h) = 0, *loss-augmented* inference the h of largest S(h) + Delta(y, h).
///
/// Fix the winner r and the number m of its votes. Then the set contains the m nearest points of r,
/// and up to cap(c) points of every other class c. So the nearest k - m admissible points complete
/// the set, which a scan of all points by ascending distance finds.
#pragma once

#include <algorithm>
#include <limits>

#include "metricfast/core/types.hpp"
#include "metricfast/inference/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A database point that may be in a set. Ordered by (D, row).
struct Candidate {
    double distance; ///< squared
    std::int64_t index;
    std::int32_t label;
    friend bool operator<(const Candidate &a, const Candidate &b) {
        return a.distance < b.distance || (a.distance == b.distance && a.index < b.index);
    }
};

/// A set, as ascending indices of candidates. Not feasible: no set has the required vote.
struct NeighborSet {
    std::vector<Index> members;
    double cost = 0;  ///< sum of the squared distances
    double delta = 0; ///< cost of the vote
    bool feasible = false;
};

/// Solver for one query after another; each thread needs its own object.
class SetSolver {
  public:
    /// \param unit of the candidates' distances: the square of their scale.
    explicit SetSolver(const InferenceOptions &options, double unit = 1)
        : options_(options), unit_(unit),
          local_(static_cast<std::size_t>(options.loss.classes), -1) {}

    double unit() const { return unit_; }

    /// The query's class, and its candidates in order. Candidates must include every point of an
    /// optimal set, and all nearer points of the same class. They must outlive the solver's use.
    void set_query(Index y, const std::vector<Candidate> &candidates) {
        for (std::size_t c = 0; c < used_; ++c)
            local_[classes_[c].label] = -1;
        y_ = y;
        candidates_ = &candidates;
        used_ = 0;
        class_of_.resize(candidates.size());
        rank_.resize(candidates.size());
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            auto &local = local_[candidates[i].label];
            if (local < 0)
                local = add_class(candidates[i].label);
            auto &c = classes_[local];
            class_of_[i] = local;
            c.sums.push_back(c.sums.back() + candidates[i].distance);
            c.positions.push_back(static_cast<Index>(i));
            rank_[i] = static_cast<Index>(c.positions.size());
        }
        plain_.members.clear();
        plain_.delta = 0;
        plain_.feasible = false;
        nearest_sums_.assign(1, 0.0);
        for (Index i = 0; i < std::min(k(), size()); ++i)
            nearest_sums_.push_back(nearest_sums_.back() + candidates[i].distance);
    }

    /// The k nearest points, whatever their vote.
    const NeighborSet &plain() {
        if (!plain_.members.empty() || size() < k())
            return plain_;
        for (Index i = 0; i < k(); ++i)
            plain_.members.push_back(i);
        finish(plain_);
        return plain_;
    }

    /// The winner of the k nearest points' vote, with ties going to the class of the nearest; -1 if
    /// there are fewer than k.
    Index answer() {
        if (size() < k())
            return -1;
        votes_.assign(used_, 0);
        Index most = 0;
        for (Index i = 0; i < k(); ++i)
            most = std::max(most, ++votes_[class_of_[i]]);
        Index i = 0;
        while (votes_[class_of_[i]] != most)
            ++i;
        return classes_[class_of_[i]].label;
    }

    NeighborSet targeted() {
        if (!plain().feasible || (plain().delta == 0 && !options_.greedy))
            return plain();
        NeighborSet best;
        for (std::size_t r = 0; r < used_; ++r)
            if (classes_[r].delta == 0)
                improve(r, true, best);
        return best;
    }

    NeighborSet augmented() {
        if (!plain().feasible)
            return plain();
        const double least = plain().delta;
        NeighborSet best;
        if (!options_.greedy)
            best = plain();
        for (std::size_t r = 0; r < used_; ++r)
            // A set that is better than the plain one has a higher cost of its vote.
            if (options_.greedy || classes_[r].delta > least)
                improve(r, false, best);
        return best;
    }

  private:
    struct Class {
        Index label;
        double delta;
        std::vector<Index> positions;
        std::vector<double> sums; ///< prefix sums of the distances
    };

    Index k() const { return options_.k; }
    Index size() const { return static_cast<Index>(candidates_->size()); }
    double distance(Index position) const { return (*candidates_)[position].distance; }

    std::int32_t add_class(Index label) {
        if (used_ == classes_.size())
            classes_.emplace_back();
        auto &c = classes_[used_];
        c.label = label;
        c.delta = options_.loss(y_, label);
        c.positions.clear();
        c.sums.assign(1, 0.0);
        return static_cast<std::int32_t>(used_++);
    }

    /// Returns the number of points that class c may have if r wins with m points, so that the vote
    /// costs at most (targeted inference) or at least (loss-augmented inference) delta(r).
    Index cap(const Class &c, const Class &r, Index m, bool targeted) const {
        switch (options_.ties) {
        case Ties::pessimistic:
            return targeted && c.delta != 0 ? m - 1 : m;
        case Ties::optimistic:
            return !targeted && c.delta < r.delta ? m - 1 : m;
        case Ties::label:
            return c.label < r.label ? m - 1 : m;
        case Ties::nearest:
            return c.positions[0] < r.positions[0] ? m - 1 : m;
        }
        return m;
    }

    /// Replaces `best` by the best set in which r wins, if that is better.
    void improve(std::size_t winner, bool targeted, NeighborSet &best) {
        if (options_.greedy) {
            NeighborSet set = greedy(winner, targeted);
            const auto cost = [&](const NeighborSet &of) {
                return of.cost - (targeted ? 0 : of.delta * unit_);
            };
            if (set.feasible && (!best.feasible || cost(set) < cost(best)))
                best = std::move(set);
            return;
        }
        const Class &r = classes_[winner];
        double limit = std::numeric_limits<double>::infinity();
        if (best.feasible)
            limit = best.cost + (targeted ? 0 : (r.delta - best.delta) * unit_);
        bool found = false;
        for (Index m = 1; m <= std::min<Index>(k(), static_cast<Index>(r.positions.size())); ++m) {
            if (r.sums[m] + nearest_sums_[k() - m] >= limit)
                continue;
            const double cost = complete(winner, m, targeted, limit);
            if (cost < limit) {
                limit = cost;
                kept_.swap(chosen_);
                found = true;
            }
        }
        if (!found)
            return;
        best.members.assign(kept_.begin(), kept_.end());
        finish(best);
    }

    /// Stores the cheapest set with exactly m points of the winner in `chosen_`. Returns its cost,
    /// or infinity if there is none below the limit.
    double complete(std::size_t winner, Index m, bool targeted, double limit) {
        const Class &r = classes_[winner];
        chosen_.assign(r.positions.begin(), r.positions.begin() + m);
        find_substitutes(winner, m);
        double cost = r.sums[m];
        Index need = k() - m;
        std::size_t next = 0;
        for (Index i = 0; need > 0; ++i) {
            const bool more = i < size();
            // At equal distances, a class's ordinary points come first.
            while (need > 0 && next < substitutes_.size() &&
                   (!more || substitutes_[next].increment < distance(i))) {
                substitute(substitutes_[next], m);
                cost += substitutes_[next++].increment;
                --need;
            }
            if (need == 0 || !more)
                break;
            if (class_of_[i] == static_cast<std::int32_t>(winner) ||
                rank_[i] > cap(classes_[class_of_[i]], r, m, targeted))
                continue;
            cost += distance(i);
            chosen_.push_back(i);
            --need;
            if (cost + static_cast<double>(need) * distance(i) >= limit)
                return std::numeric_limits<double>::infinity();
        }
        return need == 0 ? cost : std::numeric_limits<double>::infinity();
    }

    /// If the nearest member decides ties, a class that is nearer than the winner may still have m
    /// points, if all of them are beyond the winner's first point. They replace its nearest m - 1
    /// points.
    struct Substitute {
        double increment;
        std::int32_t owner;
        Index first; ///< first index of the class beyond the winner's first point
        friend bool operator<(const Substitute &a, const Substitute &b) {
            return a.increment < b.increment || (a.increment == b.increment && a.owner < b.owner);
        }
    };

    void find_substitutes(std::size_t winner, Index m) {
        substitutes_.clear();
        if (options_.ties != Ties::nearest)
            return;
        const Index least = classes_[winner].positions[0];
        for (std::size_t c = 0; c < used_; ++c) {
            const Class &other = classes_[c];
            if (other.positions[0] >= least)
                continue;
            const auto beyond =
                std::upper_bound(other.positions.begin(), other.positions.end(), least);
            const Index first = beyond - other.positions.begin();
            if (other.positions.end() - beyond < m)
                continue;
            double sum = 0;
            for (Index i = first; i < first + m; ++i)
                sum += distance(other.positions[i]);
            // The difference may round to less than the class's ordinary increments.
            const double increment =
                std::max(sum - other.sums[m - 1], distance(other.positions[m - 1]));
            substitutes_.push_back({increment, static_cast<std::int32_t>(c), first});
        }
        std::sort(substitutes_.begin(), substitutes_.end());
    }

    void substitute(const Substitute &with, Index m) {
        chosen_.erase(std::remove_if(chosen_.begin(), chosen_.end(),
                                     [&](Index i) { return class_of_[i] == with.owner; }),
                      chosen_.end());
        const auto from = classes_[with.owner].positions.begin() + with.first;
        chosen_.insert(chosen_.end(), from, from + m);
    }

    /// The winner's smallest possible number of points, then the nearest points that keep it the
    /// winner. Not optimal, because a larger number for the winner may cost less.
    NeighborSet greedy(std::size_t winner, bool targeted) {
        const Class &r = classes_[winner];
        NeighborSet set;
        Index m = 0, votes = 0;
        while (votes < k()) {
            if (++m > static_cast<Index>(r.positions.size()))
                return set;
            votes = m + absent(r, m, targeted);
            for (std::size_t c = 0; c < used_; ++c)
                votes += c == winner ? 0 : cap(classes_[c], r, m, targeted);
        }
        std::vector<char> taken(static_cast<std::size_t>(size()), 0);
        std::vector<Index> counts(used_, 0);
        const auto add_member = [&](Index i) {
            taken[i] = 1;
            ++counts[class_of_[i]];
            set.members.push_back(i);
        };
        for (Index i = 0; i < m; ++i)
            add_member(r.positions[i]);
        while (static_cast<Index>(set.members.size()) < k()) {
            Index i = 0;
            while (i < size() &&
                   (taken[i] || (class_of_[i] != static_cast<std::int32_t>(winner) &&
                                 counts[class_of_[i]] >=
                                     cap(classes_[class_of_[i]], r, counts[winner], targeted))))
                ++i;
            if (i == size())
                return set;
            add_member(i);
        }
        finish(set);
        return set;
    }

    /// The sum of the caps of classes without candidates, for the winner's smallest number.
    Index absent(const Class &r, Index m, bool targeted) const {
        Index votes = 0;
        for (Index label = 0; label < options_.loss.classes; ++label) {
            if (local_[label] >= 0)
                continue;
            Class c{label, options_.loss(y_, label), {size()}, {}};
            votes += cap(c, r, m, targeted);
        }
        return votes;
    }

    /// Sorts the members, and recomputes cost and vote from them.
    void finish(NeighborSet &set) {
        std::sort(set.members.begin(), set.members.end());
        set.cost = 0;
        votes_.assign(used_, 0);
        Index most = 0;
        for (const Index i : set.members) {
            set.cost += distance(i);
            most = std::max(most, ++votes_[class_of_[i]]);
        }
        bool first = true;
        Index label = 0;
        for (const Index i : set.members) {
            if (votes_[class_of_[i]] != most)
                continue;
            const Class &c = classes_[class_of_[i]];
            const bool wins = first ||
                              (options_.ties == Ties::pessimistic && c.delta > set.delta) ||
                              (options_.ties == Ties::optimistic && c.delta < set.delta) ||
                              (options_.ties == Ties::label && c.label < label);
            if (wins) {
                set.delta = c.delta;
                label = c.label;
            }
            first = false;
        }
        set.feasible = true;
    }

    InferenceOptions options_;
    double unit_;
    Index y_ = 0;
    const std::vector<Candidate> *candidates_ = nullptr;
    std::vector<std::int32_t> local_; ///< index in `classes_` of each class, -1 without candidates
    std::vector<Class> classes_;
    std::size_t used_ = 0;
    std::vector<std::int32_t> class_of_; ///< index of each candidate's class
    std::vector<Index> rank_;            ///< rank of each candidate in its class, from 1
    std::vector<double> nearest_sums_;
    NeighborSet plain_; ///< empty until needed
    std::vector<Substitute> substitutes_;
    std::vector<Index> chosen_;
    std::vector<Index> kept_;
    std::vector<Index> votes_;
};

METRICFAST_NAMESPACE_END
