/// Sparse compositional metric learning: M = sum_k w_k b_k b_k^T with sparse w >= 0, from triplets.
#pragma once

#include <functional>
#include <numeric>
#include <utility>

#include "metricfast/constrained/quadratic_forms.hpp"
#include "metricfast/constrained/types.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Regularised dual averaging with adaptive steps for
///
///   min_{w >= 0} beta sum_k w_k + mean_t [1 + sum_k w_k D_tk]_+,
///   D_tk = (b_k . (x_a - x_b))^2 - (b_k . (x_a - x_c))^2 for triplet t = (a, b, c).
///
/// Iteration i adds a gradient g_k, the mean of D_tk over the violated triplets of a batch (zero
/// for the others), to a sum G_k, and its square to a sum H_k; then
/// w_k = max(0, -G_k - i beta) / (gamma (delta + sqrt(H_k))).
///
/// If points are few, their projections onto all bases are computed once, and D_tk is made of
/// these.
///
/// Else, most w_k often stay zero throughout, so most of the work can be skipped without changing
/// the result. In a block of iterations G_k cannot fall by more than the mean over each batch of
/// (b_k . (x_a - x_c))^2: a quadratic form of b_k. Bases that stay at zero by this bound are
/// "resting": G_k is brought up to date by a quadratic form after the block, and H_k from the list
/// of violated triplets if the weight of the basis becomes positive.
template <class T> class Scml {
  public:
    /// \param triplets (n_triplets x 3) rows of `points`. \param basis one basis vector per row.
    Scml(View<const T> points, Codes triplets, View<const T> basis, const ScmlSettings &settings)
        : points_(points), triplets_(triplets),
          n_triplets_(count_triplets(triplets, points.rows, "scml")), basis_(basis),
          settings_(settings) {
        require(points.cols == basis.cols, "scml: points and basis differ in width");
        require_finite(points, "scml: points must be finite");
        require_finite(basis, "scml: the basis must be finite");
        require(settings.batch > 0 && settings.beta >= 0 && settings.gamma > 0,
                "scml: batch and gamma must be positive, and beta not negative");
    }

    /// Iterates from zero weights.
    /// \param out the weight of each basis vector after the last finished block of iterations, also
    ///   after an exception.
    /// \param next called with the number of completed iterations. It returns the triplets of
    ///   further iterations, or none to stop.
    void run(Span<T> out, const Control &control, const std::function<ScmlDraws(Index)> &next) {
        require(out.size() == basis_.rows, "scml: there must be one weight per basis");
        T *const weights = out.data();
        sum_ = squares_ = Array::Zero(basis_.rows);
        known_.assign(static_cast<std::size_t>(basis_.rows), 0);
        std::fill(weights, weights + basis_.rows, T(0));
        violated_.clear();
        starts_.assign(1, 0);
        awake_.resize(known_.size());
        std::iota(awake_.begin(), awake_.end(), Index(0));
        const auto all = [&](Index, Worker &worker) {
            const Index longest = 1 + std::max<Index>(320, 4 * points_.cols) / settings_.batch;
            Index done = 0;
            for (ScmlDraws draws; (draws = next(done)).triplets.size() > 0;) {
                check(draws);
                if (done == 0 && 2 * points_.rows <= draws.triplets.size() &&
                    points_.rows <= most_projections / basis_.rows)
                    project_points(worker);
                else if (done == 0)
                    pack(awake_, panels_);
                const Index iterations = draws.triplets.size() / settings_.batch;
                const Index blocks = (iterations + longest - 1) / longest, start = done;
                for (Index b = 0; b < blocks; ++b) {
                    const Index first = b * iterations / blocks;
                    const Index count = (b + 1) * iterations / blocks - first;
                    run_block(draws.triplets.data() + first * settings_.batch, count, done, weights,
                              worker);
                    done = start + first + count;
                }
            }
        };
        parallel_blocks(1, control, all, 1);
    }

  private:
    using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
    static constexpr int rows = TileShape<T>::rows, cols = TileShape<T>::cols;
    static constexpr int width = Vec<T>::width;
    static constexpr int most = rows / 2; ///< number of triplets whose differences fit into a tile
    static constexpr Index most_projections = Index(1) << 26; ///< half a gigabyte of doubles
    static constexpr Index ahead = 8; ///< number of triplets by which points are prefetched
    using Lanes = Eigen::Map<Eigen::Array<T, cols, 1>>;
    enum Side { near, far };

    auto difference(Index triplet, Side side) const {
        const std::int64_t *t = triplets_.data() + 3 * triplet;
        return row(points_.data + t[0] * points_.stride) -
               row(points_.data + t[1 + side] * points_.stride);
    }
    void fetch(Index triplet) const {
        for (Index i = 3 * triplet; i < 3 * triplet + 3; ++i)
            prefetch(points_.row(triplets_[i]), points_.cols);
    }
    Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>> row(const T *data) const {
        return {data, points_.cols};
    }

    void check(const ScmlDraws &draws) const {
        require(draws.triplets.size() % settings_.batch == 0,
                "scml: draws must be (iterations, batch)");
        require_rows(draws.triplets, n_triplets_, "scml: draws hold an index outside the triplets");
    }

    /// Packs bases into panels for tiles, padded with zeros.
    void pack(const std::vector<Index> &ids, AlignedVector<T> &panels) const {
        const Index depth = points_.cols, count = static_cast<Index>(ids.size());
        panels.assign(static_cast<std::size_t>((count + cols - 1) / cols * cols * depth), T(0));
        for (Index i = 0; i < count; ++i) {
            const T *b = basis_.row(ids[i]);
            T *out = &panels[i / cols * cols * depth + i % cols];
            for (Index c = 0; c < depth; ++c)
                out[c * cols] = b[c];
        }
    }

    /// Computes the projections of all points onto all bases.
    void project_points(Worker &worker) {
        const Index wide = (basis_.rows + cols - 1) / cols * cols, step = 256;
        projected_.assign(static_cast<std::size_t>(points_.rows * wide), T(0));
        for (Index i = 0; i < points_.rows; i += step) {
            const Index n = std::min(step, points_.rows - i);
            detail::multiply_nt<T>({points_.row(i), n, points_.cols, points_.stride}, basis_,
                                   {&projected_[i * wide], n, basis_.rows, wide});
            worker.advance();
        }
    }
    auto projections(Index triplet, Index corner) const {
        const Index wide = panel_sum_.size();
        return Eigen::Map<const Array>(&projected_[triplets_[3 * triplet + corner] * wide], wide);
    }

    /// Computes 1 + sum_k w_k D_tk of a triplet from projections.
    T find_slack(Index triplet) const {
        const auto a = projections(triplet, 0), b = projections(triplet, 1),
                   c = projections(triplet, 2);
        Eigen::Array<T, cols, 1> sum = Eigen::Array<T, cols, 1>::Zero();
        for (const Index q : hot_) {
            const auto part = [&](const auto &x) { return x.template segment<cols>(q * cols); };
            sum += part(panel_weights_) *
                   ((part(a) - part(b)).square() - (part(a) - part(c)).square());
        }
        return 1 + sum.sum();
    }

    /// Adds D_tk of a triplet to the gradient from projections.
    void add_gradient(Index triplet) {
        const auto a = projections(triplet, 0);
        gradient_ +=
            (a - projections(triplet, 1)).square() - (a - projections(triplet, 2)).square();
    }

    /// Computes b_k^T S b_k / batch for all bases.
    void find_form(Worker &worker) {
        form_.resize(basis_.rows);
        quadratic_forms(S_, panels_.data(), form_, worker);
        form_ /= static_cast<T>(settings_.batch);
    }

    void run_block(const std::int64_t *drawn, Index count, Index done, T *weights, Worker &worker) {
        begin_ = done;
        hits_.clear();
        if (projected_.empty())
            begin_block(drawn, count, done, weights, worker);
        load_panels(weights);
        for (Index i = 0; i < count; ++i) {
            step(drawn + i * settings_.batch, i, done + i + 1);
            worker.advance();
        }
        end_block(done + count, weights, worker);
    }

    /// Reads the differences of `count` batches, and chooses the bases that take part in them.
    void begin_block(const std::int64_t *drawn, Index count, Index done, const T *weights,
                     Worker &worker) {
        const Index n = count * settings_.batch;
        for (RowMatrix<T> &side : sides_)
            renew(side, n, points_.cols);
        for (Index i = 0; i < n; ++i) {
            if (i + ahead < n)
                fetch(static_cast<Index>(drawn[i + ahead]));
            for (const Side side : {near, far})
                sides_[side].row(i) = difference(static_cast<Index>(drawn[i]), side);
        }
        renew(S_, points_.cols, points_.cols);
        detail::multiply_tn<T>(view(sides_[far]), view(sides_[far]), view(S_));
        find_form(worker);
        const T penalty = static_cast<T>(settings_.beta * double(done + 1));
        // Bases of positive or nearly positive weight come first, so that they share few panels.
        awake_.clear();
        std::vector<Index> later[2];
        for (Index k = 0; k < basis_.rows; ++k) {
            const T margin = sum_[k] + penalty, fall = form_[k];
            if (weights[k] > T(0))
                awake_.push_back(k);
            else if (!(margin >= T(1.001) * fall)) // the factor allows for rounding errors
                later[margin >= fall / 10].push_back(k);
        }
        for (const auto &group : later)
            awake_.insert(awake_.end(), group.begin(), group.end());
        pack(awake_, awake_panels_);
    }

    /// Copies the state of the bases that take part in a block into panels.
    void load_panels(const T *weights) {
        const Index positions = (static_cast<Index>(awake_.size()) + cols - 1) / cols * cols;
        for (Array *values : {&panel_sum_, &panel_squares_, &panel_weights_, &gradient_}) {
            renew(*values, positions);
            values->setZero();
        }
        lacking_.assign(static_cast<std::size_t>(positions / cols), false);
        hot_.clear();
        for (Index i = 0; i < static_cast<Index>(awake_.size()); ++i) {
            const Index k = awake_[i];
            panel_sum_[i] = sum_[k];
            panel_squares_[i] = squares_[k];
            panel_weights_[i] = weights[k];
            if (known_[k] < begin_)
                lacking_[i / cols] = true;
            if (weights[k] > T(0) && (hot_.empty() || hot_.back() != i / cols))
                hot_.push_back(i / cols);
        }
    }

    void end_block(Index done, T *weights, Worker &worker) {
        if (static_cast<Index>(awake_.size()) < basis_.rows) {
            RowMatrix<T> hits = sides_[near](hits_, Eigen::all);
            detail::multiply_tn<T>(view(hits), view(hits), view(S_));
            hits = sides_[far](hits_, Eigen::all);
            const RowMatrix<T> minus = -hits;
            detail::add_product_tn<T>(view(minus), view(hits), view(S_));
            find_form(worker);
            sum_ += form_;
        }
        std::fill(weights, weights + basis_.rows, T(0));
        for (Index i = 0; i < static_cast<Index>(awake_.size()); ++i) {
            const Index k = awake_[i];
            weights[k] = panel_weights_[i];
            sum_[k] = panel_sum_[i];
            if (known_[k] == begin_) {
                squares_[k] = panel_squares_[i];
                known_[k] = done;
            }
        }
    }

    /// Computes H_k of a resting basis after the last iteration.
    T recover(Index k) {
        const auto b = row(basis_.row(k));
        const auto first = static_cast<std::size_t>(std::exchange(known_[k], begin_));
        const auto add_squares = [&](auto &&project) {
            T sum = squares_[k];
            for (std::size_t i = first; i + 1 < starts_.size(); ++i) {
                T gradient = 0;
                for (Index v = starts_[i]; v < starts_[i + 1]; ++v) {
                    const T p = project(violated_[v], near), n = project(violated_[v], far);
                    gradient += p * p - n * n;
                }
                gradient /= static_cast<T>(settings_.batch);
                sum += gradient * gradient;
            }
            return sum;
        };
        if (3 * (starts_.back() - starts_[first]) < points_.rows)
            return add_squares([&](Index t, Side side) { return b.dot(difference(t, side)); });
        projections_.resize(points_.rows);
        for (Index i = 0; i < points_.rows; ++i)
            projections_[i] = b.dot(row(points_.row(i)));
        return add_squares([&](Index t, Side side) {
            const std::int64_t *ids = triplets_.data() + 3 * t;
            return projections_[ids[0]] - projections_[ids[1 + side]];
        });
    }

    /// \param i index of the iteration in the block. \param iteration its number in the whole run,
    ///   from 1.
    void step(const std::int64_t *drawn, Index i, Index iteration) {
        const Index first = i * settings_.batch, n_hits = static_cast<Index>(hits_.size());
        ids_.resize(static_cast<std::size_t>(settings_.batch));
        std::iota(ids_.begin(), ids_.end(), first);
        slack_.resize(settings_.batch);
        if (projected_.empty())
            by_tiles(ids_.data(), settings_.batch,
                     [&](Index at, auto n) { find_slacks<n>(&slack_[at]); });
        else
            for (Index t = 0; t < settings_.batch; ++t)
                slack_[t] = find_slack(drawn[t]);
        for (Index t = 0; t < settings_.batch; ++t)
            if (slack_[t] > T(0)) {
                hits_.push_back(first + t);
                violated_.push_back(static_cast<Index>(drawn[t]));
            }
        starts_.push_back(static_cast<Index>(violated_.size()));
        gradient_.setZero();
        if (projected_.empty())
            by_tiles(hits_.data() + n_hits, static_cast<Index>(hits_.size()) - n_hits,
                     [&](Index, auto n) { add_gradient<n>(); });
        else
            for (Index k = n_hits; k < static_cast<Index>(hits_.size()); ++k)
                add_gradient(drawn[hits_[k] - first]);
        find_weights(static_cast<T>(settings_.beta * static_cast<double>(iteration)));
    }

    /// Calls f(at, n) for groups of n triplets of the block, with both differences of each triplet
    /// packed. A group has at most as many triplets as a tile holds.
    template <class F> void by_tiles(const Index *ids, Index count, F &&f) {
        const Index groups = (count + most - 1) / most, depth = points_.cols;
        for (Index m = 0; m < groups; ++m) {
            const Index at = m * count / groups, n = (m + 1) * count / groups - at;
            packed_.resize(static_cast<std::size_t>(2 * n * depth));
            for (Index t = 0; t < n; ++t)
                for (const Side side : {near, far}) {
                    const T *in = sides_[side].row(ids[at + t]).data();
                    T *out = &packed_[2 * t + side];
                    for (Index c = 0; c < depth; ++c)
                        out[c * 2 * n] = in[c];
                }
            unrolled<most>([&](auto i) {
                if (n == i + 1)
                    f(at, std::integral_constant<int, i + 1>{});
            });
        }
    }

    /// Returns the two projections of N packed triplets onto the bases of a panel.
    template <int N> METRICFAST_INLINE Tile<T, 2 * N> project(Index q) const {
        Tile<T, 2 * N> tile;
        tile.fill(T(0));
        tile.accumulate_dot(points_.cols, packed_.data(), &awake_panels_[q * cols * points_.cols]);
        return tile;
    }

    /// Computes 1 + sum_k w_k D_tk.
    template <int N> void find_slacks(T *slacks) const {
        Vec<T> sum[N];
        const Vec<T> zero = Vec<T>::broadcast(T(0));
        unrolled<N>([&](auto t) METRICFAST_INLINE { sum[t] = zero; });
        for (const Index q : hot_) {
            const auto tile = project<N>(q);
            for (int half = 0; half < 2; ++half) {
                const Vec<T> w = Vec<T>::load(&panel_weights_[q * cols + half * width]);
                unrolled<N>([&](auto t) METRICFAST_INLINE {
                    const Vec<T> p = tile.v[2 * t][half], n = tile.v[2 * t + 1][half];
                    sum[t] = fma(w, p * p - n * n, sum[t]);
                });
            }
        }
        unrolled<N>([&](auto t) METRICFAST_INLINE {
            slacks[t] = static_cast<T>(1 + horizontal_sum(sum[t]));
        });
    }

    /// Adds D_tk of N packed triplets to the gradient.
    template <int N> void add_gradient() {
        const Index panels = gradient_.size() / cols;
        for (Index q = 0; q < panels; ++q) {
            const auto tile = project<N>(q);
            for (int half = 0; half < 2; ++half) {
                T *at = &gradient_[q * cols + half * width];
                Vec<T> sum = Vec<T>::load(at);
                unrolled<N>([&](auto t) METRICFAST_INLINE {
                    const Vec<T> p = tile.v[2 * t][half], n = tile.v[2 * t + 1][half];
                    sum = fma(p, p, sum - n * n);
                });
                sum.store(at);
            }
        }
    }

    /// Adds the gradient to G and its square to H, and computes the weights from them.
    void find_weights(T penalty) {
        for (const Index q : hot_)
            Lanes(panel_weights_.data() + q * cols).setZero();
        hot_.clear();
        const auto share = Vec<T>::broadcast(T(1) / static_cast<T>(settings_.batch));
        const auto limit = Vec<T>::broadcast(-penalty);
        for (Index q = 0; q < static_cast<Index>(lacking_.size()); ++q) {
            unsigned positive = 0;
            for (Index i = q * cols; i < (q + 1) * cols; i += width) {
                const auto g = share * Vec<T>::load(&gradient_[i]);
                const auto sum = Vec<T>::load(&panel_sum_[i]) + g;
                sum.store(&panel_sum_[i]);
                fma(g, g, Vec<T>::load(&panel_squares_[i])).store(&panel_squares_[i]);
                positive |= less(sum, limit);
            }
            if (positive != 0) {
                hot_.push_back(q);
                find_weights_of_panel(q, penalty);
            }
        }
    }

    void find_weights_of_panel(Index q, T penalty) {
        const T delta = T(0.001); // keeps the first steps finite
        const Lanes sum(panel_sum_.data() + q * cols);
        Lanes squares(panel_squares_.data() + q * cols), weights(panel_weights_.data() + q * cols);
        if (lacking_[q])
            for (Index lane = 0; lane < cols; ++lane)
                if (sum[lane] < -penalty && known_[awake_[q * cols + lane]] < begin_)
                    squares[lane] = recover(awake_[q * cols + lane]);
        weights = (-penalty - sum).max(T(0)) /
                  (static_cast<T>(settings_.gamma) * (delta + squares.sqrt()));
    }

    View<const T> points_;
    Codes triplets_;
    Index n_triplets_;
    View<const T> basis_;
    ScmlSettings settings_;
    Array sum_, squares_;                    ///< G and H
    std::vector<Index> known_;               ///< number of iterations included in H_k
    std::vector<Index> violated_, starts_;   ///< violated triplets of each iteration so far
    AlignedVector<T> panels_, awake_panels_; ///< all bases, and the bases of the block
    AlignedVector<T> projected_;             ///< projections of all points, if these are few
    Array projections_;                      ///< projections of all points onto one basis
    // State of a block:
    Index begin_ = 0;          ///< number of iterations before the block
    RowMatrix<T> sides_[2];    ///< x_a - x_b and x_a - x_c of its triplets
    std::vector<Index> awake_; ///< bases that are not resting
    Array panel_sum_, panel_squares_, panel_weights_, gradient_; ///< of these bases
    std::vector<char> lacking_; ///< whether H_k of a panel may have gaps
    std::vector<Index> hot_;    ///< panels of non-zero weight
    std::vector<Index> hits_;   ///< violated triplets
    RowMatrix<T> S_;
    Array form_;
    std::vector<Index> ids_;
    Array slack_;
    AlignedVector<T> packed_;
};

METRICFAST_NAMESPACE_END
