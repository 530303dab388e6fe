/// Sparse compositional metric learning: M = sum_k w_k b_k b_k^T with sparse w >= 0, from triplets.
#pragma once

#include "metricfast/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

struct ScmlSettings {
    double beta = 0;  ///< weight of sum_k w_k
    double gamma = 1; ///< strength of the proximal term: larger means smaller steps
    Index batch = 1;  ///< triplets an iteration
};

/// Which triplets further iterations use.
struct ScmlDraws {
    const std::int64_t *triplets = nullptr; ///< iterations x batch
    Index iterations = 0;
};

/// Regularised dual averaging with adaptive steps for
///
///   min_{w >= 0} beta sum_k w_k + mean_t [1 + sum_k w_k D_tk]_+,
///   D_tk = (b_k . (x_a - x_b))^2 - (b_k . (x_a - x_c))^2 for triplet t = (a, b, c).
///
/// Iteration i adds a gradient g_k, the mean of D_tk over the violated triplets of a batch (zero
/// for the others), to a sum G_k, and its square to a sum H_k; then
/// w_k = max(0, -G_k - i beta) / (gamma (delta + sqrt(H_k))).
///
/// Most w_k stay zero throughout, so most of the work can be left out without a change in the
/// result. In a block of iterations G_k cannot fall by more than the mean over each batch of
/// (b_k . (x_a - x_c))^2: a quadratic form of b_k. Bases that stay at zero by this bound are
/// "resting": G_k is brought up to date by a quadratic form after the block, and H_k from the list
/// of violated triplets if the basis should ever wake.
template <class T> class Scml {
  public:
    /// \param triplets n_triplets x 3 rows of `points`; \param basis one basis a row.
    Scml(View<const T> points, const std::int64_t *triplets, Index n_triplets, View<const T> basis,
         const ScmlSettings &settings)
        : points_(points), triplets_(triplets), n_triplets_(n_triplets), basis_(basis),
          settings_(settings) {
        require(points.cols == basis.cols, "scml: points and basis differ in width");
        require(settings.batch > 0 && settings.beta >= 0 && settings.gamma > 0,
                "scml: batch and gamma must be positive, and beta not negative");
        for (Index i = 0; i < 3 * n_triplets; ++i)
            require(triplets[i] >= 0 && triplets[i] < points.rows,
                    "scml: triplets holds an index outside the points");
    }

    /// Iterations from zero weights.
    /// \param weights one value a basis, those of the last iteration done, also after an exception.
    /// \param next called with the number of iterations done; gives the triplets of further ones,
    ///   and none to end.
    template <class Next> void run(T *weights, const Control &control, Next &&next) {
        sum_ = squares_ = Vector::Zero(basis_.rows);
        known_.assign(static_cast<std::size_t>(basis_.rows), 0);
        std::fill(weights, weights + basis_.rows, T(0));
        violated_.clear();
        starts_.assign(1, 0);
        awake_.clear();
        active_.clear();
        const auto all = [&](Index, Worker &worker) {
            const Index least = 1 + std::max<Index>(320, 4 * points_.cols) / settings_.batch;
            Index block = least, done = 0;
            for (ScmlDraws draws; (draws = next(done)).iterations > 0;) {
                check(draws);
                for (Index i = 0, count = 0; i < draws.iterations; i += count) {
                    count = std::min(block, draws.iterations - i);
                    run_block(draws.triplets + i * settings_.batch, count, done, weights, worker);
                    done += count;
                    // Longer blocks have fewer quadratic forms, but keep more bases awake.
                    const auto awake = static_cast<Index>(awake_.size());
                    const Index longest = max_block / (settings_.batch * points_.cols);
                    if (16 * awake < basis_.rows && 2 * block <= longest)
                        block *= 2;
                    else if (4 * awake > basis_.rows && block > least)
                        block /= 2;
                }
            }
        };
        parallel_blocks(1, control, all, 1);
    }

  private:
    using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
    static constexpr int rows = TileShape<T>::rows, cols = TileShape<T>::cols;
    static constexpr int width = Vec<T>::width;
    static constexpr Index max_block = 1 << 18; ///< coordinates
    static_assert(rows % 2 == 0, "the two differences of a triplet share a tile");

    auto difference(Index triplet, int side) const {
        const std::int64_t *t = triplets_ + 3 * triplet;
        return row(points_.data + t[0] * points_.stride) -
               row(points_.data + t[1 + side] * points_.stride);
    }
    Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>> row(const T *data) const {
        return {data, points_.cols};
    }
    auto basis(Index k) const { return row(basis_.row(k)); }

    /// b_k^T S b_k / batch of all bases.
    Vector quadratic_form(const RowMatrix<T> &S) {
        products_.noalias() = basis_.eigen() * S;
        return products_.cwiseProduct(basis_.eigen()).rowwise().sum() /
               static_cast<T>(settings_.batch);
    }

    void check(const ScmlDraws &draws) const {
        for (Index i = 0; i < draws.iterations * settings_.batch; ++i)
            require(draws.triplets[i] >= 0 && draws.triplets[i] < n_triplets_,
                    "scml: draws hold an index outside the triplets");
    }

    void run_block(const std::int64_t *drawn, Index count, Index done, T *weights, Worker &worker) {
        begin_block(drawn, count, done, worker);
        for (Index i = 0; i < count; ++i) {
            step(drawn + i * settings_.batch, i, done + i + 1, weights);
            worker.advance();
        }
        end_block(done + count);
    }

    /// Reads the differences of `count` batches, and chooses the bases that take part in them.
    void begin_block(const std::int64_t *drawn, Index count, Index done, Worker &worker) {
        const Index n = count * settings_.batch;
        for (RowMatrix<T> &side : sides_)
            side.resize(n, points_.cols);
        for (Index i = 0; i < n; ++i)
            for (int side = 0; side < 2; ++side)
                sides_[side].row(i) = difference(static_cast<Index>(drawn[i]), side);
        slack_.resize(n);
        const Vector bound = quadratic_form(sides_[1].transpose() * sides_[1]);
        std::vector<std::int64_t> awake;
        const T rounding = T(1.001), beta = static_cast<T>(settings_.beta * double(done + 1));
        for (Index k = 0; k < basis_.rows; ++k) {
            // Those that are awake go to rest later than they would wake.
            const bool was_awake = known_[k] == done;
            if (sum_[k] + beta >= bound[k] * (was_awake ? 2 * rounding : rounding))
                continue;
            awake.push_back(k);
            if (!was_awake) {
                wake(k, done);
                worker.advance();
            }
        }
        if (awake != awake_) {
            awake_ = std::move(awake);
            Frame frame;
            frame.centre.assign(static_cast<std::size_t>(basis_.cols), 0.0);
            panels_ = PackedDatabase<T>(Points(basis_), frame, awake_, {0}, Control{1, {}, {}});
        }
        const auto size = static_cast<std::size_t>(panels_.positions());
        panel_sum_.assign(size, T(0));
        panel_squares_.assign(size, T(0));
        for (std::size_t i = 0; i < awake_.size(); ++i) {
            panel_sum_[i] = sum_[awake_[i]];
            panel_squares_[i] = squares_[awake_[i]];
        }
    }

    void end_block(Index done) {
        const auto violated = (slack_.array() > T(0)).template cast<T>().matrix().eval();
        const RowMatrix<T> S = sides_[0].transpose() * violated.asDiagonal() * sides_[0] -
                               sides_[1].transpose() * violated.asDiagonal() * sides_[1];
        if (static_cast<Index>(awake_.size()) < basis_.rows)
            sum_ += quadratic_form(S);
        for (std::size_t i = 0; i < awake_.size(); ++i) {
            const auto k = awake_[i];
            sum_[k] = panel_sum_[i];
            squares_[k] = panel_squares_[i];
            known_[k] = done;
        }
    }

    /// Brings H_k of a resting basis up to date.
    void wake(Index k, Index done) {
        for (Index i = known_[k]; i < done; ++i) {
            T gradient = 0;
            for (Index v = starts_[i]; v < starts_[i + 1]; ++v) {
                const T near = basis(k).dot(difference(violated_[v], 0));
                const T far = basis(k).dot(difference(violated_[v], 1));
                gradient += near * near - far * far;
            }
            gradient /= static_cast<T>(settings_.batch);
            squares_[k] += gradient * gradient;
        }
    }

    /// \param i iteration of the block; \param iteration number of it in all, from 1.
    void step(const std::int64_t *drawn, Index i, Index iteration, T *weights) {
        find_slacks(i * settings_.batch, weights);
        pack_violated(drawn, i * settings_.batch);
        for (const Index k : active_)
            weights[k] = T(0);
        active_.clear();
        const double penalty = settings_.beta * static_cast<double>(iteration);
        for (Index q = 0; q < panels_.panels(); ++q) {
            Vec<T> gradient[2];
            panel_gradient(q, gradient);
            for (int half = 0; half < 2; ++half) {
                T *sums = &panel_sum_[q * cols + half * width];
                T *squares = &panel_squares_[q * cols + half * width];
                const Vec<T> g = gradient[half], sum = Vec<T>::load(sums) + g;
                sum.store(sums);
                fma(g, g, Vec<T>::load(squares)).store(squares);
                unsigned negative = less(sum, Vec<T>::broadcast(static_cast<T>(-penalty)));
                for (; negative != 0; negative &= negative - 1) {
                    const int lane = lowest_bit(negative);
                    const auto k = static_cast<Index>(panels_.id(q * cols + half * width + lane));
                    weights[k] = weight(static_cast<double>(sums[lane]) + penalty,
                                        static_cast<double>(squares[lane]));
                    active_.push_back(k);
                }
            }
        }
    }

    T weight(double sum, double squares) const {
        constexpr double delta = 0.001; // keeps the first steps finite
        return static_cast<T>(-sum / (settings_.gamma * (delta + std::sqrt(squares))));
    }

    void find_slacks(Index first, const T *weights) {
        auto slack = slack_.segment(first, settings_.batch);
        slack.setOnes();
        for (const Index k : active_)
            for (int side = 0; side < 2; ++side) {
                projected_.noalias() =
                    sides_[side].middleRows(first, settings_.batch) * basis(k).transpose();
                slack += (side == 0 ? weights[k] : -weights[k]) * projected_.cwiseAbs2();
            }
    }

    /// Lists the violated triplets, and puts their differences into micro-panels of a tile's rows,
    /// missing ones zero.
    void pack_violated(const std::int64_t *drawn, Index first) {
        const Index depth = points_.cols;
        groups_ = 0;
        Index lane = rows;
        for (Index i = 0; i < settings_.batch; ++i) {
            if (!(slack_[first + i] > T(0)))
                continue;
            violated_.push_back(static_cast<Index>(drawn[i]));
            if (lane == rows) {
                lane = 0;
                packed_.resize(static_cast<std::size_t>(++groups_ * rows * depth));
                std::fill(packed_.end() - rows * depth, packed_.end(), T(0));
            }
            for (const RowMatrix<T> &side : sides_) {
                T *out = &packed_[(groups_ - 1) * rows * depth + lane++];
                for (Index c = 0; c < depth; ++c)
                    out[c * rows] = side(first + i, c);
            }
        }
        starts_.push_back(static_cast<Index>(violated_.size()));
    }

    void panel_gradient(Index q, Vec<T> (&gradient)[2]) const {
        const Vec<T> zero = Vec<T>::broadcast(T(0));
        Vec<T> near[2] = {zero, zero}, far[2] = {zero, zero};
        for (Index m = 0; m < groups_; ++m) {
            Tile<T> tile;
            tile.fill(T(0));
            tile.accumulate_dot(points_.cols, &packed_[m * rows * points_.cols], panels_.panel(q));
            for (int half = 0; half < 2; ++half)
                unrolled<rows / 2>([&](auto r) METRICFAST_INLINE {
                    const Vec<T> p = tile.v[2 * r][half], n = tile.v[2 * r + 1][half];
                    near[half] = fma(p, p, near[half]);
                    far[half] = fma(n, n, far[half]);
                });
        }
        const Vec<T> share = Vec<T>::broadcast(T(1) / static_cast<T>(settings_.batch));
        for (int half = 0; half < 2; ++half)
            gradient[half] = (near[half] - far[half]) * share;
    }

    View<const T> points_;
    const std::int64_t *triplets_;
    Index n_triplets_;
    View<const T> basis_;
    ScmlSettings settings_;
    RowMatrix<T> products_;
    Vector sum_, squares_;            ///< G and H
    std::vector<Index> known_;        ///< iterations that H_k includes
    std::vector<std::int64_t> awake_; ///< bases that take part in the block
    PackedDatabase<T> panels_{Points(View<const T>()), {}, {}, {0}, {}}; ///< of the awake bases
    AlignedVector<T> panel_sum_, panel_squares_;                         ///< their G and H
    std::vector<Index> active_;            ///< bases of non-zero weight
    std::vector<Index> violated_, starts_; ///< violated triplets of each iteration so far
    RowMatrix<T> sides_[2];                ///< x_a - x_b and x_a - x_c of the block's triplets
    Vector slack_, projected_;
    AlignedVector<T> packed_;
    Index groups_ = 0;
};

METRICFAST_NAMESPACE_END
