/// Exact search of the k nearest points in each segment of a prepared database: with bounds in 8
/// bits, in floats, and in doubles, and finally with all distances.
#pragma once

#include "metricfast/search/block_search.hpp"
#include "metricfast/search/cascade.hpp"
#include "metricfast/search/quantized_search.hpp"
#include "metricfast/search/screened_search.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Reusable memory of consecutive searches.
struct SearchMemory {
    CascadeMemory cascade;
    std::vector<BlockSearch::Memory> block; ///< one per thread, like the next three
    std::vector<QuantizedSearch::Memory> quantized;
    std::vector<ScreenedSearch<float>::Memory> floats;
    std::vector<ScreenedSearch<double>::Memory> doubles;
    std::vector<std::int64_t> rest; ///< unanswered queries for later
};

class SegmentSearch {
  public:
    /// `within`: see Database::search().
    SegmentSearch(const PreparedDatabase &database, const Queries &queries, Index k,
                  const Filter &filter, Span<const double> within = nullptr)
        : database_(database), queries_(queries), k_(k), filter_(filter), within_(within) {
        require_each(within, queries.rows(), "kneighbors: within must have one entry per query");
        filter.check(queries.rows(), database.space().points().rows());
    }

    /// Scale of the neighbours' squared distances.
    double scale() const { return database_.frame().exact_scale; }

    /// Calls emit(query, segment, sorted neighbours) with k neighbours, or fewer if the segment has
    /// fewer. There may be several calls for a query; the last one counts.
    void run(const Control &control, SearchMemory &memory, const Emit &emit) const {
        auto &ids = memory.cascade.ids;
        ids.resize(static_cast<std::size_t>(queries_.rows()));
        std::iota(ids.begin(), ids.end(), 0);
        Cascade cascade(control, memory.cascade);
        const auto nearest = [k = k_](std::vector<Neighbor> &found) { keep_nearest(found, k); };
        const auto depth = static_cast<double>(queries_.cols());
        if (database_.rows().size() == 1 && within_ == nullptr &&
            BlockSearch::serves(database_.space().points().rows(), queries_.rows(), k_))
            cascade.stage(
                BlockSearch(database_, database_.single(cascade.control()), queries_, k_, filter_),
                depth, memory.block, nearest, emit);
        if (cascade.done())
            return;
        if (k_ > most_sorted && k_ > database_.space().points().rows() / 16)
            return exhaustive(database_.rows(), Copies(), cascade, emit);
        const QuantizedDatabase *quantized = database_.quantized();
        if (quantized != nullptr &&
            QuantizedSearch::serves(*quantized, queries_.rows(), k_, within_ != nullptr))
            by_integers(*quantized, cascade, memory, nearest, emit);
        if (cascade.done())
            return;
        // If nearly all queries have too many candidates, exact distances may cost less than
        // bounds.
        if (quantized != nullptr &&
            2 * static_cast<Index>(cascade.ids().size()) > queries_.rows() &&
            sparse(cascade) != nullptr)
            return exhaustive(database_.rows(), Copies(), cascade, emit);
        const Copies none;
        cascade.stage(ScreenedSearch<float>(database_, database_.single(cascade.control()), none,
                                            queries_, k_, filter_),
                      depth, memory.floats, nearest, emit);
        if (cascade.done())
            return;
        const auto &distinct = database_.distinct(cascade.control());
        cascade.stage(ScreenedSearch<double>(database_, distinct.screen, distinct.copies, queries_,
                                             k_, filter_),
                      2 * depth, memory.doubles, nearest, emit);
        exhaustive(distinct.rows, distinct.copies, cascade, emit);
    }

  private:
    /// Searches by integers; queries without a result remain. If the first few fail, all remain.
    template <class Merge>
    void by_integers(const QuantizedDatabase &quantized, Cascade &cascade, SearchMemory &memory,
                     const Merge &nearest, const Emit &emit) const {
        constexpr std::size_t trial = 24;
        // A search skips most cells.
        const double depth =
            static_cast<double>(queries_.cols()) * (quantized.divided() ? 0.01 : 0.1);
        const QuantizedSearch search(database_, queries_, k_, filter_, within_);
        auto &ids = cascade.ids(), &rest = memory.rest;
        rest.clear();
        if (ids.size() > 4 * trial) {
            rest.assign(ids.begin() + trial, ids.end());
            ids.resize(trial);
            for (auto &thread : memory.quantized)
                thread.candidates = 0;
        }
        search.arrange(ids, cascade.control().silent());
        cascade.attempt(search, depth, memory.quantized, nearest, emit);
        if (rest.empty())
            return;
        Index candidates = 0;
        for (const auto &thread : memory.quantized)
            candidates += thread.candidates;
        if (4 * ids.size() <= trial &&
            QuantizedSearch::affordable(quantized.positions() * Index(trial), quantized.depth(),
                                        candidates / 2)) {
            rest.swap(ids);
            search.arrange(ids, cascade.control().silent());
            cascade.stage(search, depth, memory.quantized, nearest, emit);
        }
        ids.insert(ids.end(), rest.begin(), rest.end());
        std::sort(ids.begin(), ids.end());
    }

    /// Keeping this most_sorted candidates sorted costs more than computing every distance.
    static constexpr Index most_sorted = 256;

    /// Returns the sparse rows of the points, or null if they are not sparse.
    const SparseRows *sparse(const Cascade &cascade) const {
        if (!database_.space().euclidean() || cascade.ids().size() < 2)
            return nullptr;
        const SparseRows &rows = database_.sparse(cascade.control());
        return rows.serves() ? &rows : nullptr;
    }

    /// Computes every distance, for queries with too most_sorted (nearly) equal neighbours, and for
    /// very large k.
    void exhaustive(const Segments &segments, const Copies &copies, Cascade &cascade,
                    const Emit &emit) const {
        const auto &ids = cascade.ids();
        const auto blocks = static_cast<Index>(ids.size());
        const Space &space = database_.space();
        const SparseRows *const sparse_rows = sparse(cascade);
        parallel_blocks(blocks, cascade.control(), [&](Index b, Worker &) {
            const auto query = static_cast<Index>(ids[b]);
            const auto allowed = [&](std::int64_t row) { return filter_(query, row); };
            std::vector<double> row;
            std::vector<Neighbor> best;
            for (Index s = 0; s < segments.size(); ++s) {
                best.clear();
                for (Index o = segments.begin(s); o < segments.end(s); ++o) {
                    const std::int64_t first = copies.first(segments.order[o], allowed);
                    if (first >= 0)
                        best.push_back({0, first});
                }
                if (sparse_rows != nullptr) {
                    queries_.read(query, row);
                    sparse_rows->set_distances(row.data(), queries_.cols(), scale(), best.data(),
                                               best.size());
                    keep_nearest(best, k_);
                } else {
                    rank_nearest(queries_, query, space, scale(), k_, row, best);
                }
                copies.expand(best, 0, allowed, k_);
                keep_nearest(best, k_);
                emit(query, s, best);
            }
        });
    }

    const PreparedDatabase &database_;
    const Queries &queries_;
    Index k_;
    Filter filter_;
    Span<const double> within_;
};

namespace detail {

inline void check_search(const Points &queries, const Points &database, Index k) {
    require(queries.cols() == database.cols(), "kneighbors: queries and database differ in width");
    require(k >= 1, "kneighbors: n_neighbors must be at least 1");
    require(database.rows() <= std::numeric_limits<std::int32_t>::max() / 2,
            "kneighbors: the database has more than 2^30 points");
}

template <class T>
void check_search(const Points &queries, const Points &database, Index k, View<T> distances,
                  View<std::int64_t> indices) {
    check_search(queries, database, k);
    require(k <= database.rows(), "kneighbors: n_neighbors exceeds the number of database points");
    require(distances.rows == queries.rows() && distances.cols == k &&
                indices.rows == queries.rows() && indices.cols == k,
            "kneighbors: distances and indices must be (n_queries, n_neighbors)");
}

/// Writes one query's neighbours in one segment; missing ones become inf and -1.
/// \param value converts distances.
template <class T, class Value>
void write_neighbors(const std::vector<Neighbor> &found, T *distances, std::int64_t *indices,
                     Index k, Value &&value) {
    for (Index r = 0; r < k; ++r) {
        const bool has = r < static_cast<Index>(found.size());
        distances[r] = has ? value(found[r].distance) : std::numeric_limits<T>::infinity();
        indices[r] = has ? found[r].index : -1;
    }
}

} // namespace detail

METRICFAST_NAMESPACE_END
