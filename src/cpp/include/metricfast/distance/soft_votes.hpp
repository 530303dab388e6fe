/// Soft votes: means weighted by a softmax over negative distances, in one pass over the database.
#pragma once

#include "metricfast/core/cache.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/simd/exponential.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Exponentials of logits this far below the highest do not change a sum. Exponentials of lower
/// logits would be denormal.
template <class T> constexpr T lowest_logit = std::is_same_v<T, float> ? T(-80) : T(-700);

} // namespace detail

/// The votes of a database, in T. A block of queries processes the database in chunks. For each
/// query, it stores the largest logit so far, the sum of exponentials relative to it, and their
/// sums times values (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
template <class T> class VoteStream {
    static constexpr Index rows = TileShape<T>::rows, cols = TileShape<T>::cols;
    static constexpr int W = Vec<T>::width;

  public:
    static constexpr Index block = 8 * rows; ///< queries that process a chunk one after another

    VoteStream(const Points &queries, const Points &database, View<const T> values,
               Weights log_weight, Codes exclude, const Control &control)
        : queries_(queries), database_(database), values_(values), exclude_(exclude),
          frame_(frame_of(database, queries)),
          packed_(database, frame_, identity_order(database.rows()), {0}, control),
          unit_(static_cast<T>(1 / frame_.scale)),
          ordinary_(std::isfinite(unit_) && unit_ >= std::numeric_limits<T>::min()),
          chunk_(cached(cols * packed_.depth() * Index(sizeof(T)))) {
        const auto padded = static_cast<std::size_t>(packed_.positions());
        log_weight_.assign(padded, -std::numeric_limits<T>::infinity());
        norms_.assign(padded, T(0));
        for (Index j = 0; j < database.rows(); ++j) {
            log_weight_[j] = log_weight == nullptr ? T(0) : static_cast<T>(log_weight[j]);
            norms_[j] = static_cast<T>(packed_.norm(j));
        }
    }

    /// Writes the means of the queries from `first` on.
    void run(Index first, View<double> out) const {
        const Index width = std::min(chunk_, packed_.panels()) * cols, outputs = values_.cols;
        PackedQueries<T> queries(packed_.depth());
        queries.pack(queries_, frame_, nullptr, first, out.rows);
        std::vector<State> states(static_cast<std::size_t>(out.rows));
        RowMatrix<T> sums(rows, outputs);
        AlignedVector<T> logits(static_cast<std::size_t>(rows * width));
        eigen(out).setZero();
        for (Index panel = 0; panel < packed_.panels(); panel += chunk_) {
            const Index from = panel * cols, end = std::min(panel + chunk_, packed_.panels()),
                        count = std::min(end * cols, database_.rows()) - from;
            for (Index m = 0; m < queries.micro_panels(); ++m) {
                const Index row = m * rows, used = std::min(rows, out.rows - row);
                const View<T> tile(logits.data(), used, (end - panel) * cols, width);
                fill(queries, m, first, panel, end, tile);
                for (Index r = 0; r < used; ++r)
                    raise(states[row + r], first + row + r, from, tile.row(r), tile.cols,
                          out.middle_rows(row + r, 1));
                detail::multiply<T>(View<T>(logits.data(), used, count, width),
                                    values_.middle_rows(from, count),
                                    view(sums).middle_rows(0, used));
                for (Index r = 0; r < used; ++r)
                    for (Index v = 0; v < outputs; ++v)
                        out.row(row + r)[v] += static_cast<double>(sums(r, v));
            }
        }
        for (Index i = 0; i < out.rows; ++i)
            for (Index v = 0; v < outputs; ++v)
                out.row(i)[v] /= states[i].sum;
    }

  private:
    struct State {
        T highest = -std::numeric_limits<T>::infinity();
        double sum = 0;
    };

    /// The share of |a|^2 + |b|^2 below which the product form of |a - b|^2 has lost too many
    /// digits. Above it, errors of logits are about 1e-4 in float and 1e-8 in double.
    static constexpr T share = std::is_same_v<T, float> ? T(1e-3) : T(1e-6);

    /// Logits of a micro-panel of queries and the panels of a chunk.
    void fill(const PackedQueries<T> &queries, Index m, Index first, Index begin, Index end,
              View<T> logits) const {
        const Vec<T> unit = Vec<T>::broadcast(unit_), zero = Vec<T>::broadcast(T(0)),
                     lost = Vec<T>::broadcast(share);
        // Below this, squares of coordinates may have underflowed.
        const Vec<T> least =
            Vec<T>::broadcast(static_cast<T>(packed_.depth() + 8) * std::numeric_limits<T>::min() /
                              std::numeric_limits<T>::epsilon());
        for (Index q = begin; q < end; ++q) {
            Tile<T> tile;
            product(queries.micro_panel(m), packed_.panel(q), tile);
            const Index column = q * cols;
            unrolled<rows>([&](auto r) METRICFAST_INLINE {
                if (r >= logits.rows)
                    return;
                const Vec<T> own = Vec<T>::broadcast(static_cast<T>(queries.norm(m * rows + r)));
                unrolled<2>([&](auto half) METRICFAST_INLINE {
                    const Index j = column + half * W;
                    const Vec<T> norms = Vec<T>::load(&norms_[j]) + own;
                    const Vec<T> squares = max(tile.v[r][half] + norms, zero);
                    T *const to = logits.row(r) + j - begin * cols;
                    (Vec<T>::load(&log_weight_[j]) - sqrt(squares) * unit).store(to);
                    unsigned again =
                        ordinary_ ? less(squares, max(norms * lost, least)) : (1U << W) - 1;
                    for (; again != 0; again &= again - 1) {
                        const Index lane = lowest_bit(again);
                        to[lane] = j + lane < database_.rows()
                                       ? exact_logit(first + m * rows + r, j + lane)
                                       : -std::numeric_limits<T>::infinity();
                    }
                });
            });
        }
    }

    METRICFAST_NOINLINE void product(const T *a, const T *b, Tile<T> &result) const {
        Tile<T> sum;
        sum.fill(T(0));
        sum.accumulate_dot(packed_.depth(), a, b);
        result = sum;
    }

    METRICFAST_NOINLINE T exact_logit(Index i, Index j) const {
        const double distance = queries_.visit([&](auto x) {
            return database_.visit([&](auto y) {
                const auto *a = x.row(i);
                const auto *b = y.row(j);
                // Half differences cannot overflow.
                const auto half = [&](Index k) {
                    return static_cast<double>(a[k]) / 2 - static_cast<double>(b[k]) / 2;
                };
                return 2 * detail::squared_length(x.cols, half).root();
            });
        });
        return static_cast<T>(static_cast<double>(log_weight_[j]) - distance);
    }

    /// Converts logits to exponentials relative to the highest logit of the query so far.
    void raise(State &state, Index query, Index from, T *logits, Index count,
               View<double> sums) const {
        Index excluded = exclude_ != nullptr ? exclude_[query] - from : -1;
        excluded = excluded < count ? excluded : -1;
        if (excluded >= 0)
            logits[excluded] = -std::numeric_limits<T>::infinity();
        Vec<T> most = Vec<T>::broadcast(state.highest);
        for (Index j = 0; j < count; j += W)
            most = max(most, Vec<T>::load(logits + j));
        T lanes[W];
        most.store(lanes);
        const T highest = *std::max_element(lanes, lanes + W);
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> all(logits, count);
        if (!std::isfinite(highest)) { // only the excluded point
            all.setZero();
            return;
        }
        if (highest > state.highest) {
            const double factor = std::exp(static_cast<double>(state.highest - highest));
            state.sum *= factor;
            eigen(sums) *= factor;
            state.highest = highest;
        }
        all = (all - highest).max(detail::lowest_logit<T>);
        exponentials(logits, count);
        if (excluded >= 0)
            logits[excluded] = T(0);
        state.sum += sum_of(logits, std::min(count, database_.rows() - from));
    }

    Points queries_;
    Points database_;
    View<const T> values_;
    Codes exclude_;
    Frame frame_;
    PackedDatabase<T> packed_;
    T unit_;
    bool ordinary_; ///< the unit is representable in T
    Index chunk_;   ///< panels that fit into a cache
    std::vector<T> log_weight_, norms_;
};

namespace detail {

/// The votes for few queries, from differences: this reads the database once, and packs nothing.
template <class T>
void votes_of_differences(View<const T> queries, View<const T> database, View<const T> values,
                          Weights log_weight, Codes exclude, View<double> out,
                          const Control &control) {
    using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
    constexpr Index block = 1024;
    const Index m = database.rows, d = database.cols, blocks = (m + block - 1) / block;
    // Below this, squares of coordinates may have underflowed.
    const T least =
        static_cast<T>(d + 8) * std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
    const auto is_exact = [least](T square) {
        return square > least && square <= std::numeric_limits<T>::max();
    };
    struct Part {
        T highest;  ///< logit of a block
        double sum; ///< of exponentials relative to it
    };
    std::vector<Part> parts(static_cast<std::size_t>(blocks));
    RowMatrix<T> sums(blocks, values.cols);
    for (Index i = 0; i < queries.rows; ++i) {
        const T *const a = queries.row(i);
        const Eigen::Map<const Array> query(a, d);
        parallel_blocks(blocks, control, [&](Index b, Worker &) {
            const Index first = b * block, count = std::min(block, m - first);
            alignas(64) T logits[block];
            Eigen::Map<Array> all(logits, count);
            for (Index j = 0; j < count; ++j)
                logits[j] =
                    (Eigen::Map<const Array>(database.row(first + j), d) - query).square().sum();
            int inexact = 0;
            for (Index j = 0; j < count; ++j)
                inexact += is_exact(logits[j]) ? 0 : 1;
            if (inexact == 0)
                all = all.sqrt();
            for (Index j = 0; inexact > 0 && j < count; ++j) {
                const T *const x = database.row(first + j);
                const auto half = [&](Index k) {
                    require(std::isfinite(x[k]), "coordinates must be finite");
                    return static_cast<double>(a[k]) / 2 - static_cast<double>(x[k]) / 2;
                };
                logits[j] = is_exact(logits[j])
                                ? std::sqrt(logits[j])
                                : static_cast<T>(2 * squared_length(d, half).root());
            }
            if (log_weight == nullptr)
                all = -all;
            else
                all = Eigen::Map<const Eigen::ArrayXd>(log_weight.data() + first, count)
                          .template cast<T>() -
                      all;
            const Index out_row = exclude != nullptr ? static_cast<Index>(exclude[i]) - first : -1;
            const bool excluded = out_row >= 0 && out_row < count;
            if (excluded)
                logits[out_row] = -std::numeric_limits<T>::infinity();
            const T highest = all.maxCoeff();
            if (std::isfinite(highest)) {
                // Lower exponentials would be denormal.
                all = (all - highest).max(lowest_logit<T>);
                exponentials(logits, count);
            } else {
                all.setZero();
            }
            if (excluded)
                logits[out_row] = T(0);
            parts[b] = {highest, sum_of(logits, count)};
            multiply<T>(View<T>(logits, 1, count), values.middle_rows(first, count),
                        view(sums).middle_rows(b, 1));
        });
        T highest = -std::numeric_limits<T>::infinity();
        for (const Part &part : parts)
            highest = std::max(highest, part.highest);
        double total = 0;
        auto means = eigen(out).row(i);
        means.setZero();
        for (Index b = 0; b < blocks; ++b) {
            const double share = std::exp(static_cast<double>(parts[b].highest - highest));
            total += share * parts[b].sum;
            means += share * sums.row(b).template cast<double>();
        }
        means /= total;
    }
}

} // namespace detail

/// Computes out(i, v) = sum_j p_ij values(j, v), where p_i is the softmax over j of log_weight_j -
/// |q_i - x_j|. In double, means of values up to 1 are exact to 1e-6; in float, logits to about
/// 1e-4.
/// \param values (database x outputs).
/// \param log_weight finite, one per database row, or null for zeros.
/// \param exclude for each query a row without a vote, -1 for none, or null.
/// \param out (queries x outputs), written; NaN if no row is left.
template <class T>
void soft_votes(const Points &queries, const Points &database, View<const T> values,
                Weights log_weight, Codes exclude, View<double> out, const Control &control = {}) {
    require(queries.cols() == database.cols(), "soft_votes: queries and database differ in width");
    require(values.rows == database.rows() && out.rows == queries.rows() && out.cols == values.cols,
            "soft_votes: values must be (n_database, n_outputs), out (n_queries, n_outputs)");
    require_each(log_weight, database.rows(), "soft_votes: there must be one weight per point");
    for (const double weight : log_weight)
        require(weight <= std::numeric_limits<double>::max(),
                "soft_votes: log_weight must hold numbers below infinity");
    require_excluded(exclude, queries.rows(), database.rows(), "soft_votes");
    require_finite(queries, "coordinates must be finite");
    const Control how = worth_it(control, static_cast<double>(queries.rows()) *
                                              static_cast<double>(database.rows()) *
                                              static_cast<double>(queries.cols() + 16));
    constexpr Index few = 4;
    constexpr bool wide = std::is_same_v<T, double>;
    if (queries.rows() <= few && queries.is_double() == wide && database.is_double() == wide) {
        const auto typed = [](const Points &points) {
            View<const T> found;
            points.visit([&](auto v) {
                if constexpr (std::is_same_v<decltype(v), View<const T>>)
                    found = v;
            });
            return found;
        };
        return detail::votes_of_differences<T>(typed(queries), typed(database), values, log_weight,
                                               exclude, out, how);
    }
    require_finite(database, "coordinates must be finite");
    using Stream = VoteStream<T>;
    const Stream stream(queries, database, values, log_weight, exclude, how);
    constexpr Index block = Stream::block;
    parallel_blocks((out.rows + block - 1) / block, how, [&](Index b, Worker &) {
        stream.run(b * block, out.middle_rows(b * block, std::min(block, out.rows - b * block)));
    });
}

METRICFAST_NAMESPACE_END
