/// A block of queries that sweeps a database: it visits the points whose bounds are below the
/// queries' thresholds.
#pragma once

#include "metricfast/search/screen.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class S> class Sweep {
  public:
    static constexpr Index rows = TileShape<S>::rows;

    /// Begins a block: queries ids[0 .. count), or first, first + 1, ... if `ids` is null. Until
    /// their thresholds are set, they find nothing.
    void begin(const ScreenedDatabase<S> &database, const Points &queries, const Frame &frame,
               const std::int64_t *ids, Index first, Index count) {
        database_ = &database;
        queries_.pack(queries, frame, ids, first, count);
        thresholds_.resize(static_cast<std::size_t>(queries_.micro_panels() * rows));
        hits_.resize(static_cast<std::size_t>(4 * rows * ScreenedDatabase<S>::cols));
        close();
    }

    /// The query finds points with a lower bound below this.
    S &threshold(Index i) { return thresholds_[i]; }
    void stop(Index i) { threshold(i) = -std::numeric_limits<S>::infinity(); }
    /// Sets all thresholds to -inf.
    void close() {
        std::fill(thresholds_.begin(), thresholds_.end(), -std::numeric_limits<S>::infinity());
    }

    /// |q|^2 of a query.
    double norm(Index i) const { return queries_.norm(i); }
    /// The query's share of the distance between its two bounds.
    double slack(Index i) const { return 2 * database_->error() * norm(i); }
    /// The threshold that no point with a squared distance of at most `square` exceeds.
    S reaching(Index i, double square) const {
        return above<S>(square - norm(i) * (1 - 2 * database_->error()));
    }

    /// Finds points with a squared distance of at most `square`. False: the bounds of such points
    /// are too wide, and it finds none.
    bool reach(Index i, double square) {
        const double width = database_->tiny() + database_->error() * (10 * norm(i) + 8 * square);
        if (std::is_same_v<S, float> && !(8 * width <= square))
            return false;
        threshold(i) = reaching(i, square);
        return true;
    }

    /// Calls visit(query, position, lower bound) for each point found in the panels [begin, end).
    /// It may lower thresholds, for points that are visited later.
    template <class Visit> void run(Index begin, Index end, Visit &&visit) {
        using Hit = typename ScreenedDatabase<S>::Hit;
        Hit *const hits = hits_.data();
        for (Index q = begin; q < end; ++q)
            for (Index m = 0; m < queries_.micro_panels();) {
                const Hit *const last =
                    database_->find(q, m, queries_, thresholds_.data(), hits, hits + hits_.size());
                for (const Hit *hit = hits; hit != last; ++hit)
                    if (hit->lower < thresholds_[hit->row])
                        visit(Index(hit->row), Index(hit->position), hit->lower);
            }
    }

  private:
    const ScreenedDatabase<S> *database_ = nullptr;
    PackedQueries<S> queries_{0};
    std::vector<S> thresholds_;
    std::vector<typename ScreenedDatabase<S>::Hit> hits_;
};

METRICFAST_NAMESPACE_END
