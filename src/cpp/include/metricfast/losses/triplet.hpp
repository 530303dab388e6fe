/// Triplet losses, all triplets of an anchor at a time.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/losses/hinges.hpp"
#include "metricfast/losses/labels.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Base class of triplet losses of classes and of continuous labels.
template <class T> class TripletBase : public RowLoss<T> {
  public:
    explicit TripletBase(TripletSettings settings) : settings_(settings) {
        require(settings.margin >= 0 && std::isfinite(settings.margin),
                "triplet: margin must be finite, from 0 on");
    }

    RowKind kind() const override {
        return settings_.squared ? RowKind::squared_distance : RowKind::distance;
    }

    /// Sum of [d_near + margin - d_far]_+ over the selected triplets. `counts`: for each column,
    /// the number of triplets as near point minus the number as far point.
    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        std::vector<T> counts(static_cast<std::size_t>(row.count), T(0));
        if (!find(row, row.excluded, counts, result))
            return row.skip();
        std::copy(counts.begin(), counts.end(), row.values);
        return result;
    }

  protected:
    /// Sets value and terms; false if there is no triplet.
    virtual bool find(const Row<T> &row, Index excluded, std::vector<T> &counts,
                      RowValue &result) const = 0;

    T with_margin(T d) const { return d + static_cast<T>(settings_.margin); }

    void one(const Row<T> &row, Index near, Index far, std::vector<T> &counts,
             RowValue &result) const {
        const double hinge = static_cast<double>(with_margin(row.values[near])) -
                             static_cast<double>(row.values[far]);
        if (!(hinge > 0))
            return;
        result.value = hinge;
        result.terms = 1;
        counts[near] = T(1);
        counts[far] = T(-1);
    }

    TripletSettings settings_;
};

/// Near points have the anchor's class, and far points another class. If the k near points are
/// sorted, a far point forms active triplets with a range of them. m far points cost
/// O((k + m) log k).
template <class T> class TripletLoss : public TripletBase<T> {
  public:
    TripletLoss(TripletSettings settings, ClassLabels labels)
        : TripletBase<T>(settings), members_(labels) {}

    void check(Index queries, Index database) const override { members_.check(queries, database); }

  protected:
    bool find(const Row<T> &row, Index excluded, std::vector<T> &counts,
              RowValue &result) const override {
        const std::vector<Index> &members = members_.of(row.anchor);
        std::vector<std::pair<T, Index>> near;
        for (const Index j : members)
            if (j != excluded)
                near.emplace_back(row.values[j], j);
        const Index k = static_cast<Index>(near.size());
        const bool other = excluded >= 0 && static_cast<Index>(members.size()) == k;
        if (k == 0 || k == row.others())
            return false;
        std::sort(near.begin(), near.end());
        constexpr T nowhere = std::numeric_limits<T>::infinity();
        std::vector<T> far(row.values, row.values + row.count);
        for (const Index j : members)
            far[j] = nowhere;
        if (other)
            far[excluded] = nowhere;
        if (this->settings_.mining == Mining::hardest) {
            const Index nearest = std::min_element(far.begin(), far.end()) - far.begin();
            this->one(row, near.back().second, nearest, counts, result);
            return true;
        }
        constexpr Index short_list = 32; // for which no search is faster
        // Differences of infinite distances must make the value NaN, not 0.
        const bool finite = std::isfinite(near.back().first);
        if (this->settings_.mining == Mining::all && k <= short_list && finite) {
            std::vector<HingeLimit<T>> limits;
            for (auto point = near.rbegin(); point != near.rend(); ++point)
                limits.push_back({this->with_margin(point->first), point->second});
            counts.swap(far);
            result.value = sum_hinges(counts.data(), row.count, limits, -1.0,
                                      [](Vec<T> x, Index) METRICFAST_INLINE { return x; });
            for (const HingeLimit<T> &limit : limits) {
                counts[limit.column] = static_cast<T>(limit.above);
                result.terms += limit.above;
            }
            return true;
        }
        std::vector<T> d(near.size()), limits(near.size());
        for (Index p = 0; p < k; ++p) {
            d[p] = near[p].first;
            limits[p] = this->with_margin(d[p]);
        }
        // Far point j is active with near points first[j] .. last[j] - 1.
        std::vector<std::int32_t> first, last;
        count_below(limits, far, [](T h, T x) { return h <= x; }, first);
        const bool semihard = this->settings_.mining == Mining::semihard;
        if (semihard)
            count_below(d, far, [](T h, T x) { return h < x; }, last);
        std::vector<std::int32_t> starts(static_cast<std::size_t>(k) + 1, 0);
        double sum = 0;
        for (Index j = 0; j < row.count; ++j) {
            const std::int32_t from = first[j];
            const std::int32_t to =
                semihard ? std::max(last[j], from) : static_cast<std::int32_t>(k);
            ++starts[from];
            --starts[to];
            counts[j] = static_cast<T>(from - to);
            sum += from < to ? static_cast<double>(counts[j]) * static_cast<double>(far[j]) : 0.0;
        }
        std::int64_t active = 0;
        for (Index p = 0; p < k; ++p) {
            active += starts[p];
            counts[near[p].second] = static_cast<T>(active);
            sum += static_cast<double>(active) * static_cast<double>(limits[p]);
            result.terms += static_cast<Index>(active);
        }
        result.value = sum;
        return true;
    }

  private:
    /// Counts, for each x, the elements h of ascending `sorted` with below(h, x). All binary
    /// searches proceed step by step together, without branches.
    template <class Below>
    static void count_below(const std::vector<T> &sorted, const std::vector<T> &x, Below below,
                            std::vector<std::int32_t> &counts) {
        const std::int32_t k = static_cast<std::int32_t>(sorted.size());
        std::int32_t step = 1;
        while (2 * step <= k)
            step *= 2;
        // Padded, so that no step is out of range.
        std::vector<T> h(sorted);
        h.resize(static_cast<std::size_t>(2 * step), std::numeric_limits<T>::quiet_NaN());
        counts.assign(x.size(), 0);
        const T *values = h.data();
        for (; step > 0; step /= 2)
            for (std::size_t j = 0; j < x.size(); ++j)
                counts[j] += below(values[counts[j] + step - 1], x[j]) ? step : 0;
    }

    ClassMembers members_;
};

METRICFAST_NAMESPACE_END
