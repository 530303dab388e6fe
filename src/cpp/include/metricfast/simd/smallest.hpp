/// The k smallest of many numbers, in order; without branches for small k.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "metricfast/core/types.hpp"
#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The k smallest of all added numbers.
template <class S> class Smallest {
  public:
    void reset(Index k) {
        k_ = k;
        const Index whole = (k + Vec<S>::width - 1) / Vec<S>::width * Vec<S>::width;
        sorted_.assign(static_cast<std::size_t>(whole + 1), std::numeric_limits<S>::infinity());
        sorted_[0] = -std::numeric_limits<S>::infinity();
    }

    void add(S x) {
        if (k_ > 4 * Vec<S>::width)
            insert(x);
        else
            shift(x);
    }

    /// The k-th smallest number; infinite if there are fewer.
    S last() const { return sorted_[static_cast<std::size_t>(k_)]; }

    /// The k smallest, ascending; infinite if there are fewer.
    const S *begin() const { return sorted_.data() + 1; }
    const S *end() const { return begin() + k_; }

  private:
    void insert(S x) {
        const auto first = sorted_.begin() + 1, last = first + k_;
        const auto at = std::upper_bound(first, last, x);
        if (at == last)
            return;
        std::copy_backward(at, last - 1, last);
        *at = x;
    }

    /// Inserts x: every number becomes max(previous number, min(number, x)).
    void shift(S x) {
        constexpr Index W = Vec<S>::width;
        const Vec<S> added = Vec<S>::broadcast(x);
        S *const values = sorted_.data() + 1;
        for (Index i = static_cast<Index>(sorted_.size()) - 1 - W; i >= 0; i -= W)
            max(Vec<S>::load(values + i - 1), min(Vec<S>::load(values + i), added))
                .store(values + i);
    }

    Index k_ = 0;
    std::vector<S> sorted_; ///< sorted numbers between -inf and inf as sentinels
};

METRICFAST_NAMESPACE_END
