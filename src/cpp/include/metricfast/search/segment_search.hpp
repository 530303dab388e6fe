/// Exact search of the k nearest points in each segment of a prepared database. The fastest bounds
/// come first. Queries with too many candidates continue with finer bounds, and finally with all
/// distances.
#pragma once

#include <numeric>

#include "metricfast/core/work.hpp"
#include "metricfast/search/block_search.hpp"
#include "metricfast/search/quantized_search.hpp"
#include "metricfast/search/screened_search.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Reusable memory of consecutive searches.
struct SearchMemory {
    struct Thread {
        BlockSearch::Memory block;
        QuantizedSearch::Memory quantized;
        ScreenedSearch<float>::Memory float_bounds;
        ScreenedSearch<double>::Memory double_bounds;
        std::vector<char> crowded;        ///< queries with too many candidates
        std::vector<std::int64_t> failed; ///< queries that were
    };
    std::vector<Thread> threads;
    std::vector<std::int64_t> ids;            ///< unanswered queries
    std::vector<std::int64_t> rest;           ///< unanswered queries for later
    std::vector<std::vector<Neighbor>> parts; ///< parts of each query's neighbours
};

class SegmentSearch {
  public:
    /// `within`: see Database::search().
    SegmentSearch(const PreparedDatabase &database, const Points &queries, Index k,
                  const Filter &filter, Span<const double> within = nullptr)
        : database_(database), queries_(queries), k_(k), filter_(filter), within_(within) {
        require_each(within, queries.rows(), "kneighbors: within must have one entry per query");
        filter.check(queries.rows(), database.points().rows());
    }

    /// Scale of the neighbours' distances.
    double scale() const { return database_.frame().exact_scale; }

    /// Calls emit(query, segment, sorted neighbours) with k neighbours, or fewer if the segment has
    /// fewer. There may be several calls for a query; the last one counts.
    void run(const Control &control, SearchMemory &memory, const Emit &emit) const {
        memory.ids.resize(static_cast<std::size_t>(queries_.rows()));
        std::iota(memory.ids.begin(), memory.ids.end(), 0);
        Control now = control;
        if (database_.rows().size() == 1 && within_ == nullptr &&
            BlockSearch::serves(database_.points().rows(), queries_.rows(), k_)) {
            const BlockSearch search(database_, database_.single(now), queries_, k_, filter_);
            pass(search, &SearchMemory::Thread::block, 1, now, memory, emit);
            now = control.silent();
            if (memory.ids.empty())
                return;
        }
        if (k_ > many && k_ > database_.points().rows() / 16)
            return exhaustive(database_.rows(), Copies(), now, memory, emit);
        if (const QuantizedDatabase *quantized = database_.quantized();
            quantized != nullptr &&
            QuantizedSearch::serves(*quantized, queries_.rows(), k_, within_ != nullptr)) {
            by_integers(*quantized, now, memory, emit);
            now = control.silent();
        }
        if (memory.ids.empty())
            return;
        const Copies none;
        const ScreenedSearch<float> search(database_, database_.single(now), none, queries_, k_,
                                           filter_);
        pass(search, &SearchMemory::Thread::float_bounds, 1, now, memory, emit);
        now = control.silent();
        if (memory.ids.empty())
            return;
        const auto &distinct = database_.distinct(now);
        const ScreenedSearch<double> finer(database_, distinct.screen, distinct.copies, queries_,
                                           k_, filter_);
        pass(finer, &SearchMemory::Thread::double_bounds, 2, now, memory, emit);
        exhaustive(distinct.rows, distinct.copies, now, memory, emit);
    }

  private:
    /// Searches by integers; queries without a result remain. If the first few fail, all remain.
    void by_integers(const QuantizedDatabase &quantized, const Control &control,
                     SearchMemory &memory, const Emit &emit) const {
        constexpr std::size_t few = 24;
        const double cost = quantized.divided() ? 0.01 : 0.1; // a search skips most cells
        const QuantizedSearch search(database_, queries_, k_, filter_, within_);
        const auto own = &SearchMemory::Thread::quantized;
        auto &ids = memory.ids, &rest = memory.rest;
        rest.clear();
        if (ids.size() > 4 * few) {
            rest.assign(ids.begin() + few, ids.end());
            ids.resize(few);
            for (auto &thread : memory.threads)
                thread.quantized.candidates = 0;
        }
        search.arrange(ids, control.silent());
        pass(search, own, cost, control.silent(), memory, emit);
        if (rest.empty())
            return;
        Index candidates = 0;
        for (const auto &thread : memory.threads)
            candidates += thread.quantized.candidates;
        const bool serves =
            4 * ids.size() <= few && QuantizedSearch::affordable(quantized.positions() * Index(few),
                                                                 quantized.depth(), candidates / 2);
        if (serves) {
            rest.swap(ids);
            search.arrange(ids, control.silent());
            pass(search, own, cost, control, memory, emit);
        }
        ids.insert(ids.end(), rest.begin(), rest.end());
        std::sort(ids.begin(), ids.end());
    }

    /// Keeping this many candidates sorted costs more than computing every distance.
    static constexpr Index many = 256;

    /// Searches for memory.ids; queries with too many candidates remain.
    /// \param cost cost of a product.
    template <class Search, class Memory>
    void pass(const Search &search, Memory SearchMemory::Thread::*own, double cost,
              const Control &control, SearchMemory &memory, const Emit &emit) const {
        const auto &ids = memory.ids;
        const Index n = static_cast<Index>(ids.size());
        const double products = static_cast<double>(n) * static_cast<double>(search.positions()) *
                                static_cast<double>(queries_.cols()) * cost;
        // No more threads than groups of queries times parts of panels.
        const int threads =
            thread_count(worth_it(control, products), n * std::max<Index>(1, search.panels()));
        // Packed queries share the second-level cache with a panel and with their lists.
        constexpr Index rows = 12, cached = Index(1) << 18;
        const Index most = std::min<Index>(240, cached / std::max<Index>(1, search.bytes()));
        const Index even = n / (4 * threads);
        const Index block = std::max<Index>(1, std::min(most, even) / rows) * rows;
        const Index blocks = (n + block - 1) / block;
        const Index parts =
            search.segments() == 1 ? part_count(search.panels(), blocks, threads, products) : 1;
        if (parts > 1)
            memory.parts.resize(static_cast<std::size_t>(n * parts));
        Control within = control;
        within.threads = threads;
        prepare(memory, thread_count(within, blocks * parts));
        parallel_blocks(blocks * parts, within, [&](Index unit, Worker &worker) {
            const Index first = unit / parts * block, part = unit % parts;
            const Index count = std::min(block, n - first);
            SearchMemory::Thread &thread = memory.threads[worker.id()];
            thread.crowded.assign(static_cast<std::size_t>(count), 0);
            for (Index s = 0; s < search.segments(); ++s) {
                const Index begin = search.segment_begin(s), size = search.segment_end(s) - begin;
                search.run(&ids[first], count, begin + size * part / parts,
                           begin + size * (part + 1) / parts, thread.crowded.data(), thread.*own,
                           [&](Index i, const std::vector<Neighbor> &found) {
                               if (parts > 1)
                                   memory.parts[(first + i) * parts + part] = found;
                               else
                                   emit(static_cast<Index>(ids[first + i]), s, found);
                           });
            }
            for (Index i = 0; i < count; ++i)
                if (thread.crowded[i])
                    thread.failed.push_back(ids[first + i]);
        });
        for (Index i = 0; parts > 1 && i < n; ++i) {
            auto &found = memory.parts[i * parts];
            for (Index part = 1; part < parts; ++part) {
                const auto &more = memory.parts[i * parts + part];
                found.insert(found.end(), more.begin(), more.end());
            }
            keep_nearest(found, k_);
            emit(static_cast<Index>(ids[i]), 0, found);
        }
        take_failed(memory);
    }

    /// Number of ranges of panels into which a search is divided. More than one if there are fewer
    /// blocks of queries than threads, or if a block would take too long to be interruptible.
    static Index part_count(Index panels, Index blocks, int threads, double products) {
        if (blocks == 0)
            return 1;
        const double longest = 2e10;
        const double slow = products / static_cast<double>(blocks) / longest;
        const Index parts = std::max<Index>((threads + blocks - 1) / blocks,
                                            static_cast<Index>(std::min(slow, 1e6)));
        return std::max<Index>(1, std::min(parts, panels / 16));
    }

    static void prepare(SearchMemory &memory, int threads) {
        if (static_cast<int>(memory.threads.size()) < threads)
            memory.threads.resize(static_cast<std::size_t>(threads));
        for (auto &thread : memory.threads)
            thread.failed.clear();
    }

    static void take_failed(SearchMemory &memory) {
        auto &ids = memory.ids;
        ids.clear();
        for (const auto &thread : memory.threads)
            ids.insert(ids.end(), thread.failed.begin(), thread.failed.end());
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    }

    /// Computes every distance, for queries with too many (nearly) equal neighbours, and for very
    /// large k.
    void exhaustive(const Segments &segments, const Copies &copies, const Control &control,
                    SearchMemory &memory, const Emit &emit) const {
        const auto &ids = memory.ids;
        parallel_blocks(static_cast<Index>(ids.size()), control, [&](Index b, Worker &) {
            const Points &points = database_.points();
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
                rank_nearest(queries_, query, points, scale(), k_, row, best);
                copies.expand(best, 0, allowed, k_);
                keep_nearest(best, k_);
                emit(query, s, best);
            }
        });
    }

    const PreparedDatabase &database_;
    Points queries_;
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
template <class T>
void write_neighbors(const std::vector<Neighbor> &found, double scale, bool squared, Index k,
                     T *distances, std::int64_t *indices) {
    for (Index r = 0; r < k; ++r) {
        const bool has = r < static_cast<Index>(found.size());
        const double d = has ? found[r].distance : std::numeric_limits<double>::infinity();
        distances[r] = unscaled<T>(d, scale, squared);
        indices[r] = has ? found[r].index : -1;
    }
}

} // namespace detail

METRICFAST_NAMESPACE_END
