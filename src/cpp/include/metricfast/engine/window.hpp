/// Search for database points that are not much farther than the nearest point of a query. Points
/// farther away do not affect a softmax of negated distances.
#pragma once

#include "metricfast/search/sweep.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The columns of a block of rows: row r's are columns[starts[r]] .. columns[starts[r + 1] - 1].
struct WindowLists {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> columns;

    /// Working memory of the search, reused for each block.
    struct Entry {
        float lower;
        std::int32_t position;
    };
    std::vector<std::vector<Entry>> entries;
};

/// Thread-safe once constructed. The object refers to the memory of the points.
class WindowSearch {
  public:
    /// \param window find() lists every j with D_ij <= min_l D_il + window (squared distances).
    WindowSearch(const Points &queries, const Points &database, Codes exclude, double window,
                 const Control &control)
        : queries_(queries), exclude_(exclude), frame_(frame_of(database, queries)),
          screen_(database, frame_, identity_order(database.rows()), {0}, control),
          window_(window * frame_.scale * frame_.scale) {}

    /// Recommended number of rows for find().
    static constexpr Index block = 20 * TileShape<float>::rows;

    /// Computes the lists of queries first .. first + count - 1, which may contain a few columns
    /// beyond the window. Returns false, with incomplete lists, if they exceed `limit` columns.
    bool find(Index first, Index count, Index limit, WindowLists &lists) const {
        const auto &packed = screen_.packed();
        Sweep<float> sweep;
        sweep.begin(screen_, queries_, frame_, nullptr, first, count);
        for (Index r = 0; r < count; ++r)
            sweep.threshold(r) = std::numeric_limits<float>::infinity();
        auto &entries = lists.entries;
        entries.resize(static_cast<std::size_t>(std::max<Index>(block, count)));
        for (auto &row : entries)
            row.clear();
        Index held = 0;
        // Works in stretches, so that a search with too many results ends early.
        constexpr Index stretch = 64;
        for (Index begin = 0; begin < packed.panels(); begin += stretch) {
            const Index end = std::min(begin + stretch, packed.panels());
            sweep.run(begin, end, [&](Index r, Index position, float lower) {
                if (exclude_ != nullptr && exclude_[first + r] == packed.id(position))
                    return;
                entries[r].push_back({lower, static_cast<std::int32_t>(position)});
                ++held;
                const double upper =
                    static_cast<double>(lower) + screen_.slack(position) + sweep.slack(r);
                float &threshold = sweep.threshold(r);
                threshold = std::min(threshold, above<float>(upper + window_));
            });
            if (held > limit)
                return false;
        }
        lists.starts.assign(1, 0);
        lists.columns.clear();
        for (Index r = 0; r < count; ++r) {
            for (const auto &entry : entries[r])
                if (entry.lower < sweep.threshold(r))
                    lists.columns.push_back(packed.id(entry.position));
            lists.starts.push_back(static_cast<std::int64_t>(lists.columns.size()));
        }
        return true;
    }

  private:
    Points queries_;
    Codes exclude_;
    Frame frame_;
    ScreenedDatabase<float> screen_;
    double window_;
};

METRICFAST_NAMESPACE_END
