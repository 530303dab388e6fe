/// Periodic features of numbers, and a linear map of them: forward and backward.
#pragma once

#include <memory>
#include <utility>

#include "metricfast/core/work.hpp"
#include "metricfast/embeddings/types.hpp"
#include "metricfast/simd/packing.hpp"
#include "metricfast/simd/product.hpp"
#include "metricfast/simd/wave.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

inline constexpr Index periodic_rows = 128; ///< points per block
inline constexpr Index periodic_lanes = 8;
inline constexpr std::size_t periodic_bytes = std::size_t(1) << 18; ///< memory of waves at a time

/// A lane's memory for a block of points, of which it processes a few features at a time. Features
/// are stored side by side, (.., features x rows), so that one product handles all of them; missing
/// points are zero.
template <class T> class PeriodicScratch {
    static constexpr Index rows = periodic_rows;

  public:
    explicit PeriodicScratch(const PeriodicMap<T> &periodic) : periodic_(periodic) {
        const std::size_t one = sizeof(T) * static_cast<std::size_t>(2 * periodic.waves() * rows);
        group_ =
            std::clamp<Index>(static_cast<Index>(periodic_bytes / one), 1, periodic.features());
        points_.resize(static_cast<std::size_t>(group_ * rows));
        waves_.resize(points_.size() * static_cast<std::size_t>(2 * periodic.waves()));
        hidden_.resize(points_.size() * static_cast<std::size_t>(periodic.width()));
    }

    Index group() const { return group_; } ///< features at a time

    /// Reads some features of some points. Values that are not finite, or too large for the
    /// argument of a wave, become NaN.
    void read(View<const T> x, Index first, Index count) {
        first_ = first, features_ = count;
        std::fill(points_.begin(), points_.end(), T(0));
        for (Index i = 0; i < x.rows; ++i)
            for (Index f = 0; f < count; ++f)
                points_[static_cast<std::size_t>(f * rows + i)] = x.row(i)[first + f];
        for (Index f = 0; f < count; ++f) {
            T bound = 0;
            for (Index i = 0; i < rows; ++i)
                bound = std::max(bound, std::abs(points_[static_cast<std::size_t>(f * rows + i)]));
            for (Index j = 0; j < periodic_.waves(); ++j)
                fill_waves(f, j, 2 * periodic_.frequencies.row(first + f)[j], bound);
        }
        const View<T> hidden = beside(hidden_, periodic_.width());
        multiply<T>(periodic_.mix, beside(waves_, 2 * periodic_.waves()), hidden);
        for (Index k = 0; k < hidden.rows; ++k)
            for (Index i = 0; i < hidden.cols; ++i) {
                const T value = hidden.row(k)[i] + periodic_.shift[k];
                hidden.row(k)[i] = value < T(0) ? T(0) : value; // NaN stays
            }
    }

    /// Hidden values, (width x features, rows).
    View<T> hidden() { return below(hidden_); }

    /// Memory for their gradient.
    View<T> delta() {
        delta_.resize(hidden_.size());
        return below(delta_);
    }

    /// Adds to the gradients by A, a and c / 2 pi, given the gradient by hidden values.
    void add_gradients(RowMatrix<double> &mix, std::vector<double> &shift,
                       RowMatrix<double> &frequencies) {
        const View<T> hidden = beside(hidden_, periodic_.width()),
                      delta = beside(delta_, periodic_.width()),
                      waves = beside(waves_, 2 * periodic_.waves());
        constexpr int W = Vec<T>::width;
        for (Index k = 0; k < delta.rows; ++k) {
            const Vec<T> zero = Vec<T>::broadcast(T(0));
            T *row = delta.row(k);
            for (Index from = 0; from < delta.cols; from += rows) {
                Vec<T> part = zero;
                for (Index i = from; i < from + rows; i += W) {
                    const Vec<T> positive =
                        where_less(zero, Vec<T>::load(hidden.row(k) + i), Vec<T>::load(row + i));
                    positive.store(row + i);
                    part = part + positive;
                }
                shift[static_cast<std::size_t>(k)] += horizontal_sum(part);
            }
        }
        renew(product_, delta.rows, waves.rows);
        multiply_nt<T>(delta, waves, view(product_));
        mix += product_.template cast<double>();
        upstream_.resize(waves_.size());
        multiply_tn<T>(periodic_.mix, delta, beside(upstream_, waves.rows));
        for (Index f = 0; f < features_; ++f)
            for (Index j = 0; j < periodic_.waves(); ++j)
                frequencies(first_ + f, j) += turned(f, j);
    }

  private:
    /// \param bound upper bound of the feature's values.
    void fill_waves(Index f, Index j, T twice, T bound) {
        const T *x = points_.data() + f * rows;
        const View<T> waves = beside(waves_, 2 * periodic_.waves());
        T *cosines = waves.row(j) + f * rows, *sines = waves.row(periodic_.waves() + j) + f * rows;
        if (!(bound * std::abs(twice) < most_half_turns<T>)) {
            std::fill(cosines, cosines + rows, std::numeric_limits<T>::quiet_NaN());
            std::fill(sines, sines + rows, std::numeric_limits<T>::quiet_NaN());
            return;
        }
        const Vec<T> a = Vec<T>::broadcast(twice);
        for (Index i = 0; i < rows; i += Vec<T>::width) {
            const Wave<T> found = wave(a, Vec<T>::load(x + i));
            found.cosine.store(cosines + i);
            found.sine.store(sines + i);
        }
    }

    /// The sum over points of x (cos g_sin - sin g_cos), g being the gradient by waves.
    double turned(Index f, Index j) {
        const View<T> waves = beside(waves_, 2 * periodic_.waves()),
                      upstream = beside(upstream_, 2 * periodic_.waves());
        const Index from = f * rows, s = periodic_.waves() + j;
        const auto at = [&](View<T> values, Index row, Index i) {
            return Vec<T>::load(values.row(row) + from + i);
        };
        Vec<T> sum = Vec<T>::broadcast(T(0));
        for (Index i = 0; i < rows; i += Vec<T>::width)
            sum = fma(Vec<T>::load(points_.data() + from + i),
                      at(waves, j, i) * at(upstream, s, i) - at(waves, s, i) * at(upstream, j, i),
                      sum);
        return horizontal_sum(sum);
    }

    /// Views of `count` values of each feature, with features side by side or stacked.
    View<T> beside(AlignedVector<T> &values, Index count) const {
        return {values.data(), count, features_ * rows};
    }
    View<T> below(AlignedVector<T> &values) const {
        return {values.data(), periodic_.width() * features_, rows};
    }

    const PeriodicMap<T> &periodic_;
    Index group_ = 0, features_ = 0, first_ = 0;
    AlignedVector<T> points_, waves_, hidden_, delta_, upstream_;
    RowMatrix<T> product_;
};

/// The order of the columns of L: each feature's hidden values in a row, or groups of features in
/// the order of `PeriodicScratch::hidden`.
enum class ColumnOrder { by_feature, by_group };

/// Returns L with its columns in another order.
template <class T>
RowMatrix<T> reorder_columns(const PeriodicMap<T> &periodic, View<const T> map, Index group,
                             ColumnOrder order) {
    RowMatrix<T> ordered = eigen(map);
    const Index e = periodic.width();
    for (Index first = 0; first < periodic.features(); first += group) {
        const Index count = std::min(group, periodic.features() - first);
        for (Index k = 0; k < e; ++k)
            for (Index f = 0; f < count; ++f) {
                Index to = (first + f) * e + k, from = first * e + k * count + f;
                if (order == ColumnOrder::by_group)
                    std::swap(to, from);
                ordered.col(to) = eigen(map).col(from);
            }
    }
    return ordered;
}

/// Calls visit(lane, first point, count) for blocks of points; blocks of a lane are in order.
template <class F> void periodic_blocks(Index n, const Control &control, F &&visit) {
    const Index blocks = (n + periodic_rows - 1) / periodic_rows;
    parallel_blocks(
        std::min(periodic_lanes, blocks), control,
        [&](Index lane, Worker &worker) {
            for (Index b = lane; b < blocks; b += periodic_lanes) {
                visit(lane, b * periodic_rows, std::min(periodic_rows, n - b * periodic_rows));
                worker.advance();
            }
        },
        blocks);
}

/// Some columns of a matrix.
template <class Matrix> auto columns_of(Matrix &matrix, Index first, Index count) {
    return view(matrix).block(0, first, matrix.rows(), count);
}

} // namespace detail

/// Z (n, p). The result for a point does not depend on other points. Overflows give NaN.
template <class T>
void periodic_forward(View<const T> x, const PeriodicMap<T> &periodic, View<T> z,
                      const Control &control = {}) {
    periodic.check(x);
    require(z.rows == x.rows && z.cols == periodic.map.rows, "periodic_forward: Z must be (n,p)");
    std::vector<std::unique_ptr<detail::PeriodicScratch<T>>> lanes(detail::periodic_lanes);
    const Index group = detail::PeriodicScratch<T>(periodic).group(), e = periodic.width();
    const RowMatrix<T> map =
        detail::reorder_columns(periodic, periodic.map, group, detail::ColumnOrder::by_group);
    const auto visit = [&](Index lane, Index first, Index count) {
        auto &scratch = lanes[static_cast<std::size_t>(lane)];
        if (!scratch)
            scratch = std::make_unique<detail::PeriodicScratch<T>>(periodic);
        const View<const T> points = x.middle_rows(first, count);
        RowMatrix<T> out = RowMatrix<T>::Zero(detail::periodic_rows, z.cols);
        for (Index f = 0; f < periodic.features(); f += group) {
            const Index features = std::min(group, periodic.features() - f);
            scratch->read(points, f, features);
            detail::add_product_tt<T>(scratch->hidden(),
                                      detail::columns_of(map, f * e, features * e), view(out));
        }
        if (periodic.rest() > 0) {
            RowMatrix<T> rest = RowMatrix<T>::Zero(detail::periodic_rows, periodic.rest());
            rest.topRows(count) = eigen(points).rightCols(periodic.rest());
            detail::add_product_nt<T>(
                view(rest), detail::columns_of(map, map.cols() - periodic.rest(), periodic.rest()),
                view(out));
        }
        eigen(z.middle_rows(first, count)) = out.topRows(count);
    };
    detail::periodic_blocks(x.rows, worth_it(control, periodic.products(x.rows)), visit);
}

/// Gradients by all parameters from the gradient by Z. Hidden values are recomputed block by block,
/// because storing them would take more memory than the points. Sums use fixed lanes, in double, so
/// that results do not depend on the number of threads.
template <class T>
void periodic_backward(View<const T> x, const PeriodicMap<T> &periodic, View<const T> upstream,
                       const PeriodicGradient<T> &gradient, const Control &control = {}) {
    periodic.check(x);
    require(upstream.rows == x.rows && upstream.cols == periodic.map.rows,
            "periodic_backward: the gradient must be (n,p)");
    gradient.check(periodic);
    struct Lane {
        explicit Lane(const PeriodicMap<T> &periodic)
            : scratch(periodic),
              frequencies(RowMatrix<double>::Zero(periodic.features(), periodic.waves())),
              mix(RowMatrix<double>::Zero(periodic.width(), 2 * periodic.waves())),
              map(RowMatrix<double>::Zero(periodic.map.rows, periodic.map.cols)),
              recent(RowMatrix<T>::Zero(periodic.map.rows, periodic.map.cols)),
              shift(static_cast<std::size_t>(periodic.width()), 0.0) {}

        void flush() {
            map += recent.template cast<double>();
            recent.setZero();
            blocks = 0;
        }

        detail::PeriodicScratch<T> scratch;
        RowMatrix<double> frequencies, mix, map;
        RowMatrix<T> recent; ///< gradient by the map, from the last blocks
        std::vector<double> shift;
        Index blocks = 0;
    };
    constexpr Index most_recent = 16;
    std::vector<std::unique_ptr<Lane>> lanes(detail::periodic_lanes);
    const Index group = detail::PeriodicScratch<T>(periodic).group(), e = periodic.width();
    const RowMatrix<T> map =
        detail::reorder_columns(periodic, periodic.map, group, detail::ColumnOrder::by_group);
    const auto visit = [&](Index l, Index first, Index count) {
        auto &lane = lanes[static_cast<std::size_t>(l)];
        if (!lane)
            lane = std::make_unique<Lane>(periodic);
        const View<const T> points = x.middle_rows(first, count);
        RowMatrix<T> delta = RowMatrix<T>::Zero(detail::periodic_rows, upstream.cols);
        delta.topRows(count) = eigen(upstream.middle_rows(first, count));
        for (Index f = 0; f < periodic.features(); f += group) {
            const Index features = std::min(group, periodic.features() - f);
            lane->scratch.read(points, f, features);
            detail::add_product_tt<T>(view(delta), lane->scratch.hidden(),
                                      detail::columns_of(lane->recent, f * e, features * e));
            detail::multiply_tt<T>(detail::columns_of(map, f * e, features * e), view(delta),
                                   lane->scratch.delta());
            lane->scratch.add_gradients(lane->mix, lane->shift, lane->frequencies);
        }
        if (periodic.rest() > 0) {
            RowMatrix<T> rest = RowMatrix<T>::Zero(detail::periodic_rows, periodic.rest());
            rest.topRows(count) = eigen(points).rightCols(periodic.rest());
            detail::add_product_tn<T>(view(delta), view(rest),
                                      detail::columns_of(lane->recent,
                                                         lane->recent.cols() - periodic.rest(),
                                                         periodic.rest()));
        }
        if (++lane->blocks == most_recent)
            lane->flush();
    };
    detail::periodic_blocks(x.rows, worth_it(control, 3 * periodic.products(x.rows)), visit);
    Lane total(periodic);
    for (const auto &lane : lanes)
        if (lane) {
            lane->flush();
            total.frequencies += lane->frequencies;
            total.mix += lane->mix;
            total.map += lane->map;
            for (std::size_t k = 0; k < total.shift.size(); ++k)
                total.shift[k] += lane->shift[k];
        }
    constexpr double turn = 6.283185307179586477;
    eigen(gradient.frequencies) = (turn * total.frequencies).template cast<T>();
    eigen(gradient.mix) = total.mix.template cast<T>();
    std::copy(total.shift.begin(), total.shift.end(), gradient.shift.begin());
    const RowMatrix<T> ordered = total.map.template cast<T>();
    eigen(gradient.map) =
        detail::reorder_columns<T>(periodic, view(ordered), group, detail::ColumnOrder::by_feature);
}

METRICFAST_NAMESPACE_END
