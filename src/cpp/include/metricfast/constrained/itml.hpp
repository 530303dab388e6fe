/// Information-theoretic metric learning by cyclic Bregman projections, one pair at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "metricfast/constrained/types.hpp"
#include "metricfast/core/parallel.hpp"
#include "metricfast/simd/product.hpp"
#include "metricfast/simd/small_product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Sweeps over pairs. Each step projects M onto the matrices for which a pair satisfies its bound,
/// in LogDet divergence.
///
/// With v = x_a - x_b, p = v' M v, the bound x and the dual l of a pair, the projection is
///     M += (1 - t) / (p t) (M v)(M v)',   t = (p before) / (p after)
///        = (1 - g) + g p (1/x -+ l/gamma),   g = gamma / (gamma + 1),
/// limited such that the dual, which grows by -+(1 - t) / p, stays non-negative. M stays positive
/// definite since t > 0, and in floating point too, since no step reduces a distance to the size of
/// the rounding errors of M. Pairs whose distance is already so small, such as equal points, are
/// skipped.
///
/// The pairs are processed in order, in blocks of eight. One product computes all M v of a block
/// with the M before the block. The 8 x 8 products v' M v give the corrections for the updates
/// within the block, and all eight updates are then added to M at once. Each is
/// exactly (M v)(M v)', so M stays exactly symmetric.
///
/// With the Gram matrix X M X' of the points in place of M, a squared distance takes four of its
/// entries, and only pairs that move M take more. Updates are collected and added together.
class Itml {
  public:
    /// \param M symmetric positive definite; or the Gram matrix of the points, which then have no
    ///   columns. Equal points are then one row.
    Itml(const ItmlPairs &pairs, const ItmlBounds &bounds, View<const double> M)
        : pairs_(pairs), bounds_(bounds), d_(M.rows), width_((M.rows + block - 1) / block * block),
          M_(buffer(width_, width_)), u_(buffer(block, width_)), signed_u_(buffer(block, width_)),
          products_(buffer(block, block)), gram_(pairs.points.cols() == 0) {
        require(M.rows == M.cols && d_ > 0, "itml: M must be square");
        require((gram_ ? pairs.points.rows() : pairs.points.cols()) == d_,
                "itml: points and M differ in width");
        pairs.check();
        require(bounds.similar > 0 && bounds.dissimilar > 0 && bounds.gamma > 0,
                "itml: bounds and gamma must be positive");
        require_finite(pairs.points, "itml: points must be finite");
        require_finite(M, "itml: M must be finite");
        for (Index i = 0; i < d_; ++i)
            std::copy(M.row(i), M.row(i) + d_, &M_[i * width_]);
        if (gram_) {
            pending_ = RowMatrix<double>::Zero(width_, most_pending);
            return;
        }
        kept_ = blocks() * block * width_ <= most_kept;
        differences_ = buffer(kept_ ? blocks() : 1, block * width_);
        squares_ = buffer(kept_ ? blocks() : 1, block);
        for (Index b = 0; kept_ && b < blocks(); ++b)
            read_differences(b);
    }

    /// Copies the current M.
    void read(View<double> M) const {
        require(M.rows == d_ && M.cols == d_, "itml: the output must have the shape of M");
        for (Index i = 0; i < d_; ++i)
            std::copy(&M_[i * width_], &M_[i * width_] + d_, M.row(i));
    }

    /// Passes over all pairs once. The pass may be cancelled between blocks.
    /// \param duals one non-negative dual per pair, zero before the first pass; updated.
    ItmlSweep sweep(Span<double> duals, const Control &control) {
        require(duals.size() == pairs_.count(), "itml: there must be one dual per pair");
        ItmlSweep result;
        parallel_blocks(
            1, control,
            [&](Index, Worker &worker) {
                for (Index b = 0; b < blocks(); ++b) {
                    if (b % blocks_per_step == 0) {
                        update_trace();
                        worker.advance();
                    }
                    if (gram_) {
                        project_rows(b, duals, result);
                        continue;
                    }
                    if (!kept_)
                        read_differences(b);
                    project(b, duals, result);
                }
                add_pending();
            },
            (blocks() + blocks_per_step - 1) / blocks_per_step);
        update_trace();
        result.norm = Eigen::Map<const Eigen::VectorXd>(duals.data(), duals.size()).norm();
        return result;
    }

  private:
    static constexpr Index block = 8;
    static constexpr Index blocks_per_step = 16;
    static constexpr Index most_kept = Index(1) << 26; ///< numbers: half a gigabyte
    static constexpr Index most_pending = 32;
    static constexpr double noise = 128 * std::numeric_limits<double>::epsilon();
    using Buffer = std::vector<double>;

    Index blocks() const { return (pairs_.count() + block - 1) / block; }

    static Buffer buffer(Index rows, Index cols) {
        return Buffer(static_cast<std::size_t>(rows * cols));
    }

    void update_trace() {
        double trace = 0;
        for (Index i = 0; i < d_; ++i)
            trace += M_[i * (width_ + 1)];
        trace_ = std::max(trace_, trace);
    }

    /// Computes the differences of a block, as columns, and their squared norms.
    void read_differences(Index b) {
        const Index first = b * block, count = std::min(block, pairs_.count() - first);
        double *v = &differences_[kept_ ? first * width_ : 0];
        std::fill(v, v + block * width_, 0.0);
        pairs_.points.visit([&](auto x) {
            const std::int64_t *index = pairs_.index.data() + 2 * first;
            for (Index i = 2 * block; i < 2 * std::min(2 * block, pairs_.count() - first); ++i)
                prefetch(x.row(index[i]), d_);
            for (Index i = 0; i < count; ++i) {
                const auto *near = x.row(index[2 * i]), *far = x.row(index[2 * i + 1]);
                for (Index k = 0; k < d_; ++k)
                    v[k * block + i] = static_cast<double>(near[k]) - static_cast<double>(far[k]);
            }
        });
        double *squares = &squares_[kept_ ? first : 0];
        std::fill(squares, squares + block, 0.0);
        for (Index k = 0; k < d_; ++k)
            for (Index i = 0; i < block; ++i)
                squares[i] += v[k * block + i] * v[k * block + i];
    }

    /// Updates the dual of a pair, and returns the factor of (M v)(M v)'.
    /// \param p the squared distance. \param floor the size of its rounding errors.
    double find_beta(Index pair, double p, double floor, Span<double> duals, ItmlSweep &result) {
        if (!(p > floor)) {
            result.held += floor > 0;
            return 0;
        }
        const double g = std::isinf(bounds_.gamma) ? 1 : bounds_.gamma / (bounds_.gamma + 1);
        const bool near = pair < pairs_.similar;
        const double delta = near ? 1 : -1;
        const double inverse = 1 / (near ? bounds_.similar : bounds_.dissimilar);
        double &dual = duals[pair];
        double t = (1 - g) + g * p * (inverse - delta / bounds_.gamma * dual);
        const bool released = delta * (1 - t) >= dual * p;
        if (released) // rounding of 1 - dual * p must not make t zero
            t = near ? std::max(t, 1 - dual * p) : 1 + dual * p;
        const bool cut = t * floor > p;
        if (cut)
            t = p / floor;
        result.held += cut;
        const double after = released && !cut ? 0 : dual - delta * (1 - t) / p;
        result.moved += std::abs(after - dual);
        dual = after;
        return (1 - t) / (p * t);
    }

    /// Projects onto one block of pairs of rows of the Gram matrix.
    void project_rows(Index b, Span<double> duals, ItmlSweep &result) {
        const Index last = std::min((b + 1) * block, pairs_.count());
        for (Index pair = b * block; pair < last; ++pair) {
            const Index i = pairs_.index[2 * pair], j = pairs_.index[2 * pair + 1];
            if (i == j)
                continue;
            const double *const row = &M_[i * width_], *const other = &M_[j * width_];
            const Pending change = pending_.row(i) - pending_.row(j), part = change * signs_;
            const double p = row[i] + other[j] - 2 * row[j] + (part * change).sum();
            const double beta = find_beta(pair, p, 2 * noise * trace_, duals, result);
            if (beta == 0)
                continue;
            const Eigen::Map<const Eigen::VectorXd> left(row, width_), right(other, width_);
            column_.noalias() = pending_ * part.matrix().transpose();
            column_ += left - right;
            pending_.col(n_pending_) = std::sqrt(std::abs(beta)) * column_;
            signs_[n_pending_++] = beta < 0 ? -1 : 1;
            if (n_pending_ == most_pending)
                add_pending();
        }
    }

    void add_pending() {
        if (n_pending_ == 0)
            return;
        const RowMatrix<double> with_signs = pending_ * signs_.matrix().asDiagonal();
        detail::add_product_nt<double>(view(with_signs), view(pending_),
                                       {M_.data(), width_, width_});
        pending_.setZero();
        n_pending_ = 0;
    }

    /// Projects onto one block of pairs.
    void project(Index b, Span<double> duals, ItmlSweep &result) {
        using V = Vec<double>;
        const Index first = b * block;
        const double *v = &differences_[kept_ ? first * width_ : 0];
        const double *squares = &squares_[kept_ ? first : 0];
        detail::multiply(v, 1, block, M_.data(), width_, u_.data(), block, width_);
        detail::multiply(u_.data(), width_, 1, v, width_, products_.data(), block, block);
        double *G = products_.data();
        for (Index i = 0; i < block; ++i) {
            const double floor = noise * trace_ * squares[i];
            const double beta = first + i < pairs_.count()
                                    ? find_beta(first + i, G[i * (block + 1)], floor, duals, result)
                                    : 0;
            beta_[i] = beta;
            for (Index j = i + 1; j < block; ++j) {
                shares_[i][j] = beta * G[i * block + j];
                const V share = V::broadcast(shares_[i][j]);
                for (Index k = 0; k < block; k += V::width)
                    fma(share, V::load(G + i * block + k), V::load(G + j * block + k))
                        .store(G + j * block + k);
            }
        }
        double scale[block];
        Index place[block], moving = 0; // collects the vectors of the pairs that move M
        for (Index i = 0; i < block; ++i) {
            scale[i] = std::sqrt(std::abs(beta_[i]));
            place[i] = moving * width_;
            moving += beta_[i] != 0;
        }
        if (moving == 0)
            return;
        for (Index k = 0; k < width_; k += V::width) {
            V u[block];
            for (Index i = 0; i < block; ++i) {
                u[i] = V::load(&u_[i * width_ + k]);
                for (Index j = 0; j < i; ++j)
                    u[i] = fma(V::broadcast(shares_[j][i]), u[j], u[i]);
            }
            for (Index i = 0; i < block; ++i) {
                if (beta_[i] == 0)
                    continue;
                const V scaled = V::broadcast(scale[i]) * u[i];
                scaled.store(&u_[place[i] + k]);
                (V::broadcast(beta_[i] < 0 ? -1 : 1) * scaled).store(&signed_u_[place[i] + k]);
            }
        }
        detail::add_product<block>(moving, signed_u_.data(), u_.data(), M_.data(), width_);
    }

    ItmlPairs pairs_;
    ItmlBounds bounds_;
    Index d_;
    Index width_; ///< d, padded with zeros to a multiple of `block`
    Buffer M_;
    bool kept_ =
        false; ///< whether the differences of all blocks are kept, or of one block at a time
    Buffer differences_, squares_;
    Buffer u_, signed_u_;
    Buffer products_;
    bool gram_; ///< whether M is the Gram matrix of the points
    using Pending = Eigen::Array<double, 1, most_pending>;
    RowMatrix<double> pending_; ///< columns that await to be added to M, with signs
    Pending signs_ = Pending::Zero();
    Eigen::VectorXd column_;
    Index n_pending_ = 0;
    double beta_[block] = {};
    double shares_[block][block] = {};
    double trace_ = 0; ///< largest trace of M so far, the scale of its rounding errors
};

METRICFAST_NAMESPACE_END
