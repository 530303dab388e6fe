/// Triplet losses of continuous labels, all triplets of an anchor at a time.
#pragma once

#include "metricfast/losses/label_distances.hpp"
#include "metricfast/losses/triplet.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Triplets for continuous labels: of two points, the one with the label nearer to the anchor's is
/// the near point; equal label distances form no triplet. O(m log m), with sums over ranks of
/// distances.
template <class T> class DenseTripletLoss : public TripletBase<T> {
  public:
    DenseTripletLoss(TripletSettings settings, LabelDistances labels)
        : TripletBase<T>(settings), labels_(labels) {}

    void check(Index queries, Index database) const override { labels_.check(queries, database); }

  protected:
    bool find(const Row<T> &row, Index excluded, std::vector<T> &counts,
              RowValue &result) const override {
        const Order order = labels_.order(row.anchor, excluded);
        if (order.empty() || order.front().first == order.back().first)
            return false;
        if (this->settings_.mining == Mining::hardest)
            hardest(row, order, counts, result);
        else
            all(row, order, counts, result);
        return true;
    }

  private:
    using Order = LabelDistances::Order;

    /// Calls f(begin, end) for each run of equal label distances, ascending.
    template <class F> static void for_groups(const Order &order, F &&f) {
        for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
            for (end = begin; end < order.size() && order[end].first == order[begin].first;)
                ++end;
            f(begin, end);
        }
    }

    void hardest(const Row<T> &row, const Order &order, std::vector<T> &counts,
                 RowValue &result) const {
        Index farthest = -1, near = -1, far = -1; // farthest of earlier groups; the best triplet
        double most = -std::numeric_limits<double>::infinity();
        for_groups(order, [&](std::size_t begin, std::size_t end) {
            for (std::size_t g = begin; farthest >= 0 && g < end; ++g) {
                const double excess = static_cast<double>(row.values[farthest]) -
                                      static_cast<double>(row.values[order[g].second]);
                if (excess > most)
                    most = excess, near = farthest, far = order[g].second;
            }
            for (std::size_t g = begin; g < end; ++g)
                if (farthest < 0 || row.values[order[g].second] > row.values[farthest])
                    farthest = order[g].second;
        });
        this->one(row, near, far, counts, result);
    }

    /// Counts and sums of entries at ranks below a given rank (a Fenwick tree).
    class RankSums {
      public:
        explicit RankSums(std::size_t ranks) : nodes_(ranks + 1, Node{0, 0.0}) {}
        void add(std::size_t rank, double value) {
            all_ += {1, value};
            for (std::size_t i = rank + 1; i < nodes_.size(); i += i & (~i + 1))
                nodes_[i] += {1, value};
        }
        std::pair<std::int64_t, double> below(std::size_t rank) const {
            Node result{0, 0.0};
            if (rank + 1 == nodes_.size())
                result = all_;
            else
                for (std::size_t i = rank; i > 0; i &= i - 1)
                    result += nodes_[i];
            return {result.count, result.sum};
        }

      private:
        struct Node {
            std::int64_t count;
            double sum;
            void operator+=(const Node &other) {
                count += other.count;
                sum += other.sum;
            }
        };
        std::vector<Node> nodes_;
        Node all_{0, 0.0};
    };

    /// For each point, the number of distances below its distance, at most its distance, and below
    /// its distance plus the margin; and the number of distances plus margin that are at most its
    /// distance.
    struct Ranks {
        std::size_t below, through, reached, passed;
    };

    /// The ranks of points in the given order: distances sorted once, then four merges.
    std::vector<Ranks> ranks_of(const Row<T> &row, const Order &order) const {
        const std::size_t m = order.size();
        std::vector<std::pair<T, std::size_t>> sorted(m);
        for (std::size_t g = 0; g < m; ++g)
            sorted[g] = {row.values[order[g].second], g};
        std::sort(sorted.begin(), sorted.end());
        std::vector<Ranks> ranks(m);
        Ranks at{0, 0, 0, 0};
        for (const auto &[x, g] : sorted) {
            while (at.below < m && sorted[at.below].first < x)
                ++at.below;
            while (at.through < m && sorted[at.through].first <= x)
                ++at.through;
            while (at.reached < m && sorted[at.reached].first < this->with_margin(x))
                ++at.reached;
            while (at.passed < m && this->with_margin(sorted[at.passed].first) <= x)
                ++at.passed;
            ranks[g] = at;
        }
        return ranks;
    }

    void all(const Row<T> &row, const Order &order, std::vector<T> &counts,
             RowValue &result) const {
        const bool semihard = this->settings_.mining == Mining::semihard;
        const std::size_t m = order.size();
        const std::vector<Ranks> ranks = ranks_of(row, order);
        // Each group as far points, with all earlier groups as near points. d_near < d_far
        // (semi-hard) and d_near + margin > d_far are ranges of ranks.
        RankSums near(m);
        for_groups(order, [&](std::size_t begin, std::size_t end) {
            for (std::size_t g = begin; begin > 0 && g < end; ++g) {
                const Index j = order[g].second;
                const std::size_t from = ranks[g].passed,
                                  to = semihard ? std::max(ranks[g].below, from) : m;
                const auto [n_to, sum_to] = near.below(to);
                const auto [n_from, sum_from] = near.below(from);
                const std::int64_t active = n_to - n_from;
                counts[j] -= static_cast<T>(active);
                result.terms += static_cast<Index>(active);
                if (active > 0)
                    result.value += (sum_to - sum_from) - static_cast<double>(active) *
                                                              static_cast<double>(row.values[j]);
            }
            for (std::size_t g = begin; g < end; ++g) {
                const T x = row.values[order[g].second];
                near.add(ranks[g].below, static_cast<double>(this->with_margin(x)));
            }
        });
        // Each group as near points, with all later groups as far points: the same comparisons,
        // reversed.
        RankSums far(m);
        std::size_t added = m;
        for (std::size_t end = m; end > 0;) {
            std::size_t begin = end;
            while (begin > 0 && order[begin - 1].first == order[end - 1].first)
                --begin;
            for (std::size_t g = begin; added < m && g < end; ++g) {
                const std::size_t to = ranks[g].reached,
                                  from = semihard ? std::min(ranks[g].through, to) : 0;
                counts[order[g].second] +=
                    static_cast<T>(far.below(to).first - far.below(from).first);
            }
            for (std::size_t g = begin; g < end; ++g, --added)
                far.add(ranks[g].below, 0.0);
            end = begin;
        }
    }

    LabelDistances labels_;
};

METRICFAST_NAMESPACE_END
