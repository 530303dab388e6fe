/// Neighbours, and lists of candidates: every point that its bounds do not exclude.
#pragma once

#include <algorithm>

#include "metricfast/search/screen.hpp"
#include "metricfast/simd/smallest.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A neighbour: squared distance in the frame, and database row. Ordered by (D, row).
struct Neighbor {
    double distance;
    std::int64_t index;
    friend bool operator<(const Neighbor &a, const Neighbor &b) {
        return a.distance < b.distance || (a.distance == b.distance && a.index < b.index);
    }
};

/// A non-owning reference to a callback (query, segment, sorted neighbours), which must outlive it.
class Emit {
  public:
    template <class F>
    Emit(const F &f)
        : what_(&f), call_([](const void *what, Index query, Index segment,
                              const std::vector<Neighbor> &found) {
              (*static_cast<const F *>(what))(query, segment, found);
          }) {}

    void operator()(Index query, Index segment, const std::vector<Neighbor> &found) const {
        call_(what_, query, segment, found);
    }

  private:
    const void *what_;
    void (*call_)(const void *, Index, Index, const std::vector<Neighbor> &);
};

/// The candidates of one query in one segment: those whose lower bound does not exceed the k-th
/// smallest upper bound seen.
template <class S> class CandidateList {
  public:
    struct Entry {
        S lower;
        std::int32_t position;
    };

    /// Further bounds: candidates are below min(limit, max(floor, k-th upper + extra)).
    struct Limits {
        S limit = std::numeric_limits<S>::infinity();
        S floor = -std::numeric_limits<S>::infinity();
        double extra = 0;
        std::size_t crowd = 1; ///< tolerated multiple of the usual number
    };

    void reset(Index k, double row_slack, const Limits &limits = {}) {
        k_ = static_cast<std::size_t>(k);
        row_slack_ = row_slack;
        limits_ = limits;
        entries_.clear();
        uppers_.reset(k);
        threshold_ = limits.limit;
        full_ = longest();
        overflown_ = false;
    }

    /// The maximum number of entries.
    static Index capacity(Index k) { return 8 * k + 128; }

    /// Entries below this may still be among the k nearest.
    S threshold() const { return threshold_; }

    /// `slack`: upper bound minus `lower`, without the query's part. `copies`: number of equal
    /// points at the position.
    void add(S lower, double slack, Index position, Index copies) {
        entries_.push_back({lower, static_cast<std::int32_t>(position)});
        const S upper = above<S>(static_cast<double>(lower) + slack + row_slack_);
        do
            uppers_.add(upper);
        while (--copies > 0 && upper < uppers_.last());
        threshold_ = std::min(
            limits_.limit,
            std::max(limits_.floor, above<S>(static_cast<double>(uppers_.last()) + limits_.extra)));
        if (entries_.size() >= full_)
            tighten();
    }

    void tighten() {
        if (overflown_)
            return;
        const S t = threshold_;
        entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                      [t](const Entry &e) { return !(e.lower < t); }),
                       entries_.end());
        full_ = entries_.size() + longest();
        overflown_ = entries_.size() > longest();
        if (overflown_)
            threshold_ = -std::numeric_limits<S>::infinity();
    }

    /// Returns whether too many candidates remain: a search in higher precision costs less than
    /// their exact distances.
    bool overflown() const { return overflown_; }
    const std::vector<Entry> &entries() const { return entries_; }
    /// Returns whether the limit has excluded points that are among the k nearest.
    bool limited() const { return threshold_ == limits_.limit; }
    /// The k smallest upper bounds, ascending; fewer if there were fewer candidates.
    void copy_uppers(std::vector<S> &to) const {
        to.assign(uppers_.begin(), std::lower_bound(uppers_.begin(), uppers_.end(), infinity));
    }

  private:
    static constexpr S infinity = std::numeric_limits<S>::infinity();

    std::size_t longest() const { return limits_.crowd * (4 * k_ + 64); }

    std::size_t k_ = 0;
    std::size_t full_ = 0;
    double row_slack_ = 0;
    Limits limits_;
    S threshold_ = 0;
    bool overflown_ = false;
    std::vector<Entry> entries_;
    Smallest<S> uppers_;
};

/// Bytes that each query of a sweep needs: packed, and the part of its list that is in use.
template <class S> Index sweep_bytes(Index depth, Index k) {
    return depth * Index(sizeof(S)) +
           CandidateList<S>::capacity(k) * Index(sizeof(typename CandidateList<S>::Entry)) / 8;
}

METRICFAST_NAMESPACE_END
