/// Arguments and results of searches.
#pragma once

#include "metricfast/core/frame.hpp"
#include "metricfast/core/views.hpp"

namespace metricfast {

/// Neighbours in compressed sparse rows. The entries from row_starts[i] to row_starts[i + 1] - 1
/// belong to query i.
template <class T> struct NeighborLists {
    using Value = T;
    std::vector<std::int64_t> row_starts;
    std::vector<std::int64_t> indices;
    std::vector<T> distances;
    std::int64_t pairs = 0; ///< number found; above the maximum, no list is stored
};

/// The ranks of the points of a query's class, R in number. All is 0 if there are none.
struct RankSummary {
    std::int64_t first = 0;        ///< rank of the nearest
    std::int64_t hits = 0;         ///< number with a rank of at most R
    double precisions_of_hits = 0; ///< sum of i / (rank of the i-th) over these
    double precisions = 0;         ///< over all
};

/// Lists in compressed sparse rows.
struct CandidateLists {
    std::vector<std::int64_t> row_starts;
    std::vector<std::int64_t> columns;
    bool complete = true; ///< false if the lists exceeded the limit and were dropped
};

/// The database rows that each query may find. A null member excludes no row.
struct Filter {
    Codes exclude;                  ///< for each query a row to exclude, -1 for none
    Span<const std::uint8_t> rows;  ///< for each row, 0 if no query may find it
    View<const std::uint8_t> pairs; ///< for each query and row, 0 if the query may not find the row
    Codes query_labels, labels;     ///< a query excludes rows with its label
    bool equal = false;             ///< if true, excludes rows with other labels instead

    Filter() = default;
    Filter(std::nullptr_t) {}
    /// Any span of rows to exclude, one per query: for example a vector or an array.
    template <class Rows, class = std::enable_if_t<std::is_convertible_v<Rows, Codes>>>
    Filter(Rows &&excluded) : exclude(std::forward<Rows>(excluded)) {}

    bool operator()(Index query, std::int64_t row) const {
        return (exclude == nullptr || exclude[query] != row) &&
               (rows == nullptr || rows[static_cast<Index>(row)] != 0) &&
               (pairs.data == nullptr || pairs.row(query)[row] != 0) &&
               (labels == nullptr ||
                (labels[static_cast<Index>(row)] == query_labels[query]) == equal);
    }

    /// True if a query may exclude more than one row.
    bool several() const { return rows != nullptr || pairs.data != nullptr || labels != nullptr; }

    void check(Index queries, Index points) const {
        require_excluded(exclude, queries, points, "kneighbors");
        require(rows == nullptr || rows.size() == points,
                "kneighbors: a filter must have one entry per database point");
        require(pairs.data == nullptr || (pairs.rows == queries && pairs.cols == points),
                "kneighbors: pairs must have one row per query and one column per database point");
        require((labels == nullptr && query_labels == nullptr) ||
                    (labels.size() == points && query_labels.size() == queries),
                "kneighbors: labels must have one entry per query and per database point");
    }
};

/// A search within a radius, and the form of its results.
struct RadiusSettings {
    double radius = 1;
    Filter filter = {};   ///< the rows that a query may find
    bool sorted = true;   ///< nearest first, ties by the lower row; if false, by row
    bool squared = false; ///< report squared distances
    /// Maximum number of pairs; if there are more, no list is stored.
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// Arrays of a QuantizedDatabase, which can be stored in a file.
struct QuantizedParts {
    Span<const std::uint8_t> data;        ///< u + 128, panel by panel
    Span<const std::int32_t> start;       ///< for each point -|r|^2 / (2 s t), rounded up
    Span<const float> error, norm;        ///< for each panel e / s and b / s
    Span<const double> cells;             ///< for each cell s, radius, centroid
    Span<const std::int64_t> order;       ///< rows by cell; empty for one cell of ascending rows
    Span<const std::int64_t> cell_starts; ///< index in `order` of each cell's first row
};

/// The distance of a search: |q - x|, 1 - cos(q, x), or minus the inner product of q and x. Under
/// `cosine`, a zero vector has the distance 1 from other points, and 0 from zero vectors.
enum class Metric { euclidean, cosine, inner_product };

/// Bounds for pruning: boxes of a tree, 8-bit integers, or floats.
enum class SearchRoute { tree, integers, floats };

/// Structures that a database may build, if they make its searches faster.
struct DatabaseOptions {
    bool tree = true;     ///< for points with few coordinates
    bool integers = true; ///< a copy in 8 bits
    bool cells = true;    ///< cells of that copy, for clustered points
    Metric metric = Metric::euclidean;
};

/// State of a database without a tree. It can be stored in a file and memory-mapped.
struct DatabaseState {
    Frame frame;
    QuantizedParts parts;
};

} // namespace metricfast
