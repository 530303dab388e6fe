/// Searches in stages. A stage answers the queries for which its bounds are fine enough; the next
/// stage searches for the other queries with finer bounds, which take longer.
#pragma once

#include <numeric>

#include "metricfast/core/cache.hpp"
#include "metricfast/core/work.hpp"
#include "metricfast/search/candidates.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The panels of a search, in ranges that it searches one after another.
struct SearchPanels {
    const PanelLayout &layout;
    bool whole = false;    ///< one range, whatever the segments
    bool divisible = true; ///< threads may search parts of a range

    Index ranges() const { return whole ? 1 : layout.segments(); }
    Index begin(Index range) const { return whole ? 0 : layout.segment_begin(range); }
    Index end(Index range) const { return whole ? layout.panels() : layout.segment_end(range); }
};

/// The largest number of queries in a block, a multiple of micro-panels of any type.
/// \param bytes of the second-level cache for each query.
inline Index queries_of_block(Index bytes) {
    constexpr Index rows = 12, most = 240;
    return std::max<Index>(1, std::min(most, cached(bytes)) / rows) * rows;
}

/// The division of a stage: blocks of queries, and for few queries, parts of the panels.
struct SearchBlocks {
    Index queries, size, parts = 1;

    /// \param bytes of the second-level cache for each query.
    /// \param panels that threads may divide.
    /// \param products of the stage.
    SearchBlocks(Index queries_, Index bytes, Index panels, int threads, double products)
        : queries(queries_) {
        constexpr Index rows = 12;
        const Index even = std::max<Index>(1, queries / (4 * threads) / rows) * rows;
        size = std::min(queries_of_block(bytes), even);
        if (queries > 0) {
            // A block must not take so long that it could not be interrupted.
            constexpr double longest = 2e10;
            const double slow = products / static_cast<double>(blocks()) / longest;
            parts = std::max((threads + blocks() - 1) / blocks(),
                             static_cast<Index>(std::min(slow, 1e6)));
            parts = std::max<Index>(1, std::min(parts, panels / 16));
        }
    }

    Index blocks() const { return (queries + size - 1) / size; }
};

/// Memory of a cascade, used again by the next one.
struct CascadeMemory {
    struct Thread {
        std::vector<char> crowded;
        std::vector<std::int64_t> failed;
    };
    std::vector<std::int64_t> ids;
    std::vector<Thread> threads;
    std::vector<std::vector<Neighbor>> parts; ///< what each part found for each query
};

class Cascade {
  public:
    /// Begins with the queries memory.ids. Only the first stage reports progress.
    Cascade(const Control &control, CascadeMemory &memory) : control_(control), memory_(memory) {}

    /// Queries without an answer, ascending after each stage.
    std::vector<std::int64_t> &ids() { return memory_.ids; }
    const std::vector<std::int64_t> &ids() const { return memory_.ids; }
    bool done() const { return memory_.ids.empty(); }
    const Control &control() const { return control_; }

    /// Searches for the queries, and keeps those that the search marks as crowded.
    /// \tparam Search has a type Memory, and functions panels(), bytes() and run(). bytes() is the
    ///   size of the data of a query. run(ids, count, begin, end, crowded, memory, emit) searches
    ///   the panels [begin, end) for the queries ids[0 .. count). For each query i that is not
    ///   crowded, it calls emit(i, neighbours) or sets crowded[i].
    /// \param depth multiplications for each query and position, in floats.
    /// \param memories of the search, one for each thread; more are added.
    /// \param merge makes one list of those that the parts of a database gave.
    template <class Search, class Merge>
    void stage(const Search &search, double depth, std::vector<typename Search::Memory> &memories,
               Merge &&merge, const Emit &emit) {
        run(search, depth, memories, merge, emit, control_);
        control_ = control_.silent();
    }

    /// The same without a report of progress.
    template <class Search, class Merge>
    void attempt(const Search &search, double depth, std::vector<typename Search::Memory> &memories,
                 Merge &&merge, const Emit &emit) {
        run(search, depth, memories, merge, emit, control_.silent());
    }

  private:
    template <class Search, class Merge>
    void run(const Search &search, double depth, std::vector<typename Search::Memory> &memories,
             Merge &&merge, const Emit &emit, const Control &control) {
        auto &ids = memory_.ids;
        const Index n = static_cast<Index>(ids.size());
        const SearchPanels panels = search.panels();
        const double products =
            static_cast<double>(n) * static_cast<double>(panels.layout.positions()) * depth;
        // No more threads than queries times panels.
        Control within = worth_it(control, products);
        within.threads = thread_count(within, n * std::max<Index>(1, panels.layout.panels()));
        const bool divisible = panels.divisible && panels.ranges() == 1;
        const SearchBlocks division(n, search.bytes(), divisible ? panels.layout.panels() : 1,
                                    within.threads, products);
        const Index block = division.size, parts = division.parts;
        const Index units = division.blocks() * parts;
        if (parts > 1)
            memory_.parts.resize(static_cast<std::size_t>(n * parts));
        const auto threads = static_cast<std::size_t>(thread_count(within, units));
        if (memories.size() < threads)
            memories.resize(threads);
        if (memory_.threads.size() < threads)
            memory_.threads.resize(threads);
        for (auto &thread : memory_.threads)
            thread.failed.clear();
        parallel_blocks(units, within, [&](Index unit, Worker &worker) {
            const Index first = unit / parts * block, part = unit % parts;
            const Index count = std::min(block, n - first);
            CascadeMemory::Thread &thread = memory_.threads[worker.id()];
            thread.crowded.assign(static_cast<std::size_t>(count), 0);
            for (Index range = 0; range < panels.ranges(); ++range) {
                const Index begin = panels.begin(range), size = panels.end(range) - begin;
                search.run(&ids[first], count, begin + size * part / parts,
                           begin + size * (part + 1) / parts, thread.crowded.data(),
                           memories[worker.id()], [&](Index i, const std::vector<Neighbor> &found) {
                               if (parts > 1)
                                   memory_.parts[(first + i) * parts + part] = found;
                               else
                                   emit(static_cast<Index>(ids[first + i]), range, found);
                           });
            }
            for (Index i = 0; i < count; ++i)
                if (thread.crowded[i])
                    thread.failed.push_back(ids[first + i]);
        });
        for (Index i = 0; parts > 1 && i < n; ++i) {
            auto &found = memory_.parts[i * parts];
            for (Index part = 1; part < parts; ++part) {
                const auto &more = memory_.parts[i * parts + part];
                found.insert(found.end(), more.begin(), more.end());
            }
            merge(found);
            emit(static_cast<Index>(ids[i]), 0, found);
        }
        ids.clear();
        for (const auto &thread : memory_.threads)
            ids.insert(ids.end(), thread.failed.begin(), thread.failed.end());
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    }

    Control control_;
    CascadeMemory &memory_;
};

METRICFAST_NAMESPACE_END
