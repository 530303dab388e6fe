/// Candidate impostors: points of other classes within a radius of each point.
#pragma once

#include <algorithm>
#include <numeric>

#include "metricfast/core/class_numbers.hpp"
#include "metricfast/search/cascade.hpp"
#include "metricfast/search/sweep.hpp"
#include "metricfast/search/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Finds, for each point i, every l with labels[l] != labels[i] and ||z_i - z_l|| <= radius[i], in
/// ascending order. Because of rounding, a few may be slightly farther; none is missing.
///
/// The database is sorted by class, so that a block of queries of one class skips its own. If
/// classes are smaller than a panel on average, all points are one segment, and hits in the own
/// class are dropped.
/// \param labels class codes in [0, classes). Memory grows with the classes that occur.
/// \param radius plain (unsquared) distances, from 0 on; may be infinite.
/// \param limit largest total length of the lists.
inline CandidateLists find_impostors(const Points &points, Codes labels, Index classes,
                                     Weights radius, std::size_t limit,
                                     const Control &control = {}) {
    const Index n = points.rows();
    require(n < std::numeric_limits<std::int32_t>::max() / 2,
            "find_impostors: more than 2^30 points");
    require(labels.size() == n && radius.size() == n,
            "find_impostors: there must be one label and one radius for each point");
    require(classes >= 0, "find_impostors: there cannot be a negative number of classes");
    for (Index i = 0; i < n; ++i) {
        require(labels[i] >= 0 && labels[i] < classes, "find_impostors: label out of range");
        require(radius[i] >= 0, "find_impostors: a radius must not be negative");
    }
    const ClassNumbers numbers(nullptr, labels);
    std::vector<Index> starts;
    const auto order = order_by_label(numbers.database, numbers.classes, &starts);
    const bool mixed = n < numbers.classes * ScreenedDatabase<float>::cols;
    if (mixed)
        starts.assign(1, 0);
    const Frame frame = frame_of(points, points);
    const ScreenedDatabase<float> screen(points, frame, order, starts, control);
    const auto &packed = screen.packed();
    starts.push_back(n);

    const Index block = queries_of_block(points.cols() * Index(sizeof(float)));
    struct Block {
        Index segment, first, count;
    };
    std::vector<Block> blocks;
    for (Index s = 0; s + 1 < static_cast<Index>(starts.size()); ++s)
        for (Index first = starts[s]; first < starts[s + 1]; first += block)
            blocks.push_back({s, first, std::min(block, starts[s + 1] - first)});

    struct Hit {
        std::int32_t row; ///< within the block
        std::int32_t position;
    };
    std::vector<std::vector<Hit>> found(blocks.size());
    std::atomic<std::size_t> total{0};
    parallel_blocks(static_cast<Index>(blocks.size()), control, [&](Index b, Worker &) {
        if (total > limit)
            return;
        const Block &part = blocks[b];
        Sweep<float> sweep;
        sweep.begin(screen, points, frame, &order[part.first], 0, part.count);
        for (Index r = 0; r < part.count; ++r) {
            const double farthest = radius[order[part.first + r]] * frame.scale;
            sweep.threshold(r) = sweep.reaching(r, farthest * farthest * (1 + 1e-12));
        }
        auto &hits = found[b];
        const auto hit = [&](Index r, Index position, float) {
            if (mixed && labels[order[part.first + r]] == labels[packed.id(position)])
                return;
            hits.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(position)});
        };
        // In chunks, so that a search with too many results ends early.
        constexpr Index stretch = 64;
        const Index same = mixed ? packed.panels() : packed.segment_begin(part.segment);
        const Index after = packed.segment_end(part.segment);
        for (Index begin = 0; begin < packed.panels(); begin += stretch) {
            const Index end = std::min(begin + stretch, packed.panels());
            sweep.run(begin, std::min(end, same), hit);
            sweep.run(std::max(begin, after), end, hit);
            if (total + hits.size() > limit)
                break;
        }
        total += hits.size();
        hits.shrink_to_fit();
    });
    CandidateLists lists;
    if (total > limit) {
        lists.complete = false;
        return lists;
    }
    lists.row_starts.assign(static_cast<std::size_t>(n) + 2, 0);
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (const Hit &h : found[b])
            ++lists.row_starts[order[blocks[b].first + h.row] + 2];
    std::partial_sum(lists.row_starts.begin(), lists.row_starts.end(), lists.row_starts.begin());
    lists.columns.resize(total);
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (const Hit &h : found[b])
            lists.columns[lists.row_starts[order[blocks[b].first + h.row] + 1]++] =
                packed.id(h.position);
    lists.row_starts.pop_back();
    constexpr Index rows = 256; // of a block; hits of a row are in packed order, class by class
    parallel_blocks((n + rows - 1) / rows, control.silent(), [&](Index b, Worker &) {
        for (Index i = b * rows; i < std::min(n, (b + 1) * rows); ++i)
            std::sort(lists.columns.begin() + lists.row_starts[i],
                      lists.columns.begin() + lists.row_starts[i + 1]);
    });
    return lists;
}

METRICFAST_NAMESPACE_END
