/// The k nearest of a block of queries by 8-bit coordinates, exactly.
///
/// What the bounds do not exclude is collected; where a query's list is full, the exact distances
/// of its most promising points bound what is still worth collecting.
#pragma once

#include "metricfast/distance/prepared.hpp"
#include "metricfast/distance/ranking.hpp"

METRICFAST_NAMESPACE_BEGIN

class QuantizedSearch {
  public:
    /// \param k of the neighbours.
    /// \param within see Database::search().
    QuantizedSearch(const PreparedDatabase &database, const Points &queries, Index k, Codes exclude,
                    Span<const double> within)
        : database_(database), quantized_(*database.quantized()), queries_(queries), k_(k),
          exclude_(exclude), within_(within),
          rough_(queries, database.points(), database.frame().fine) {}

    /// Whether products of integers save more than it costs that they leave more candidates: always
    /// for few queries, where reading the points matters more.
    /// \param known up to where the neighbours are, which leaves few candidates.
    static bool serves(const QuantizedDatabase &database, Index queries, Index k, bool known) {
        const Index points = database.positions() / std::max<Index>(1, database.segments());
        const Index candidates = 100 + (known ? k : 12 * k);
        return queries <= Int8Tile::rows || affordable(points, database.depth(), candidates);
    }

    /// Whether so many candidates of a query cost less than products of floats instead.
    static bool affordable(Index points, Index depth, Index candidates) {
        constexpr double products = 5500; // as long as one candidate takes, measured
        return static_cast<double>(points) * static_cast<double>(depth) >=
               products * static_cast<double>(candidates);
    }

    const PanelLayout &layout() const { return quantized_; }
    /// Bytes that a query needs.
    Index bytes() const { return 4 * quantized_.groups() + 8 * capacity(k_) / 8; }

    struct Sum {
        std::int32_t sum; ///< of products
        std::int32_t position;
        float distance = -1; ///< not below the exact one, where it has been computed
    };

    /// Memory that is used again.
    struct Memory {
        QuantizedQueries queries;
        std::vector<Sum> sums;
        std::vector<Index> sizes; ///< of each query's list of sums
        std::vector<Index> full;  ///< the size at which it is looked through
        Index candidates = 0;     ///< that there were, in all
        std::vector<double> row;
        std::vector<Neighbor> near;
    };

    /// Searches the panels [begin, end) for queries ids[0 .. count) that are not crowded. Tells
    /// emit(i, neighbours) of each, or sets crowded[i] where there are too many candidates.
    template <class Emit>
    void run(const std::int64_t *ids, Index count, Index begin, Index end, char *crowded, Memory &m,
             Emit &&emit) const {
        m.sizes.assign(static_cast<std::size_t>(count), 0);
        m.full.assign(static_cast<std::size_t>(count), step());
        m.sums.resize(static_cast<std::size_t>(count * capacity(k_)));
        m.queries.pack(queries_, database_.frame(), ids, count, quantized_);
        bool scouts = within_ == nullptr;
        for (Index i = 0; i < count; ++i)
            if (!crowded[i]) {
                const double reach = known_reach(ids[i], m.queries.norm(i));
                scouts = scouts || !std::isfinite(reach);
                m.queries.look(i, reach);
            }
        const Index scouted = std::min(std::max<Index>(128, k_), (end - begin) / 8);
        if (scouts && scouted >= std::max<Index>(48, k_))
            m.queries.scout(quantized_, begin, begin + scouted, exclude_ != nullptr ? k_ + 1 : k_);
        m.queries.sweep(quantized_, begin, end, [&](Index i, Index position, std::int32_t sum) {
            if (crowded[i])
                return;
            ++m.candidates;
            m.sums[i * capacity(k_) + m.sizes[i]] = {sum, static_cast<std::int32_t>(position), -1};
            if (++m.sizes[i] == m.full[i])
                crowded[i] = !tighten(i, ids[i], m);
        });
        for (Index i = 0; i < count; ++i) {
            if (!crowded[i])
                crowded[i] = !tighten(i, ids[i], m);
            if (crowded[i])
                continue;
            m.near.clear();
            const Sum *sums = &m.sums[i * capacity(k_)];
            for (Index c = 0; c < m.sizes[i]; ++c)
                if (const std::int64_t row = quantized_.id(sums[c].position); eligible(row, ids[i]))
                    m.near.push_back({0, row});
            rank_nearest(queries_, static_cast<Index>(ids[i]), database_.points(),
                         database_.frame().fine, k_, m.row, m.near);
            emit(i, m.near);
        }
    }

  private:
    /// So many candidates a query can have at a time.
    static Index capacity(Index k) { return 256 + 16 * k; }
    /// And so many new ones are worth the search for the best of them.
    Index step() const { return 8 * k_ + 24; }

    /// Leaves the candidates that may be among the k nearest of them. False: they are too many.
    bool tighten(Index i, std::int64_t id, Memory &m) const {
        Sum *sums = &m.sums[i * capacity(k_)];
        Index size = m.sizes[i];
        if (size > k_ + 1) {
            // The largest sums are the most promising, whatever their bounds.
            std::nth_element(sums, sums + k_, sums + size,
                             [](const Sum &a, const Sum &b) { return a.sum > b.sum; });
            Index near = 0;
            float last = 0;
            for (Index c = 0; c <= k_; ++c)
                if (const std::int64_t row = quantized_.id(sums[c].position);
                    sums[c].distance < 0 && row >= 0)
                    rough_.fetch(row);
            for (Index c = 0; c <= k_ && near < k_; ++c)
                if (const std::int64_t row = quantized_.id(sums[c].position); eligible(row, id)) {
                    if (sums[c].distance < 0)
                        sums[c].distance = framed(rough_(static_cast<Index>(id), row));
                    last = std::max(last, sums[c].distance);
                    ++near;
                }
            if (near == k_)
                m.queries.look(i, reach(static_cast<double>(last), m.queries.norm(i)));
            size = std::remove_if(sums, sums + size,
                                  [&](const Sum &c) {
                                      return !m.queries.looks(i, quantized_,
                                                              c.position / QuantizedDatabase::cols,
                                                              c.sum);
                                  }) -
                   sums;
            m.sizes[i] = size;
        }
        m.full[i] = size + step();
        if (m.full[i] <= capacity(k_))
            return true;
        m.queries.look_no_more(i);
        return false;
    }

    bool eligible(std::int64_t row, std::int64_t query) const {
        return row >= 0 && (exclude_ == nullptr || exclude_[query] != row);
    }

    /// Not below the exact distance in the frame of what is not farther in fine units.
    float framed(double distance) const {
        const double unit = database_.frame().scale / database_.frame().fine;
        return detail::float_above(rough_.above(distance) * unit * unit);
    }

    /// Up to where the k nearest of a query may be, from the start.
    double known_reach(std::int64_t query, double norm) const {
        if (within_ == nullptr || !std::isfinite(within_[query]))
            return std::numeric_limits<double>::infinity();
        const double fine = database_.frame().fine;
        return reach(static_cast<double>(framed(within_[query] * fine * fine)), norm);
    }

    /// Above D - |q|^2 of every point that is not farther than d.
    static double reach(double d, double norm) {
        return d - norm + detail::quantized_margin * (d + norm) +
               std::numeric_limits<double>::min();
    }

    const PreparedDatabase &database_;
    const QuantizedDatabase &quantized_;
    const Points &queries_;
    Index k_;
    Codes exclude_;
    Span<const double> within_;
    RoughDistances rough_;
};

METRICFAST_NAMESPACE_END
