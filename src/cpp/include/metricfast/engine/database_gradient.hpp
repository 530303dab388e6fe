/// The gradient of a row loss by the database points.
///
/// Each anchor contributes to the gradient of every database point for which it has a weight. Each
/// lane of the row engine accumulates its own share. The shares are then added in the order of the
/// lanes.
#pragma once

#include "metricfast/engine/row_problem.hpp"
#include "metricfast/simd/packing.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The embedded queries and database. They are centred for losses of distances: gradients do not
/// depend on the origin, and an origin amid the points loses fewer digits.
template <class T> class EmbeddedSides {
  public:
    void set(const RowProblem<T> &problem, RowKind of) {
        kind = of;
        Eigen::RowVectorXd origin = Eigen::RowVectorXd::Zero(problem.database.cols);
        if (kind != RowKind::inner_product)
            origin = Eigen::Map<const Eigen::RowVectorXd>(middle(Points(problem.database)).data(),
                                                          origin.size());
        const auto centre = [&](View<const T> z, RowMatrix<T> &centred) {
            centred = (eigen(z).template cast<double>().rowwise() - origin).template cast<T>();
        };
        centre(problem.database, database_);
        symmetric_ = problem.symmetric;
        if (!symmetric_)
            centre(problem.queries, queries_);
    }

    const RowMatrix<T> &queries() const { return symmetric_ ? database_ : queries_; }
    const RowMatrix<T> &database() const { return database_; }

    /// Adds the contribution of a weight w of query a and database point b to both gradients: 2w (a
    /// - b) and its negative for distances, w b and w a for inner products. A null gradient is
    /// skipped.
    void add(T weight, Index i, Index j, double *to_query, double *to_database) const {
        using V = Vec<double>;
        const T *a = queries().row(i).data(), *b = database().row(j).data();
        const Index p = database_.cols();
        const double w = static_cast<double>(weight), twice = 2 * w;
        const V factor = V::broadcast(kind == RowKind::inner_product ? w : twice);
        const auto add_to = [](double *to, V v) METRICFAST_INLINE { (V::load(to) + v).store(to); };
        Index k = 0;
        for (; k + V::width <= p; k += V::width) {
            const V x = widened(a + k), y = widened(b + k);
            if (kind == RowKind::inner_product) {
                if (to_query != nullptr)
                    add_to(to_query + k, factor * y);
                if (to_database != nullptr)
                    add_to(to_database + k, factor * x);
            } else {
                if (to_query != nullptr)
                    add_to(to_query + k, factor * (x - y));
                if (to_database != nullptr)
                    add_to(to_database + k, factor * (y - x));
            }
        }
        for (; k < p; ++k) {
            const double x = static_cast<double>(a[k]), y = static_cast<double>(b[k]);
            const bool inner = kind == RowKind::inner_product;
            if (to_query != nullptr)
                to_query[k] += inner ? w * y : twice * (x - y);
            if (to_database != nullptr)
                to_database[k] += inner ? w * x : twice * (y - x);
        }
    }

    RowKind kind = RowKind::squared_distance;

  private:
    bool symmetric_ = false;
    RowMatrix<T> database_;
    RowMatrix<T> queries_;
};

/// The share of one lane. Sparse weights are stored individually, which costs least. Beyond the
/// capacity they are added to an accumulator of the size of the gradient, like dense weights.
template <class T> class DatabaseShare {
  public:
    struct Entry {
        std::int32_t row;
        std::int32_t column;
        T weight;
    };

    /// Clears the share and keeps its memory.
    /// \param bytes limit on the memory of the stored weights.
    void reset(std::size_t bytes) {
        capacity_ = bytes / sizeof(Entry);
        kept_.clear();
        recent_ = 0;
        summed_ = weighed_ = false;
    }

    /// Adds a weight of a pair. Its contribution to the query's gradient is added to `own`.
    void add(const EmbeddedSides<T> &sides, Index row, Index column, T weight, double *to_query) {
        if (summed_) {
            sides.add(weight, row, column, to_query, sums_.row(column).data());
            return;
        }
        sides.add(weight, row, column, to_query, nullptr);
        kept_.push_back(
            {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column), weight});
        if (kept_.size() <= capacity_)
            return;
        prepare(sides);
        for (const Entry &e : kept_)
            sides.add(e.weight, e.row, e.column, nullptr, sums_.row(e.column).data());
        kept_.clear();
    }

    /// Adds dense weights W of the anchors `first` and above. Products W^T Zq are first summed in T
    /// for several blocks, since a pass over the sums in double is expensive.
    void add(const EmbeddedSides<T> &sides, View<const T> weights, Index first) {
        if (recent_ + weights.rows > most_recent)
            flush(sides);
        const View<const T> anchors = view(sides.queries()).middle_rows(first, weights.rows);
        if (recent_ == 0)
            product_.setZero(weights.cols, anchors.cols);
        detail::add_product_tn<T>(weights, anchors, view(product_));
        recent_ += weights.rows;
        if (sides.kind == RowKind::inner_product)
            return;
        if (!weighed_)
            column_sums_.setZero(weights.cols);
        weighed_ = true;
        add_column_sums(weights);
    }

    /// Completes the sums after the last block and releases temporary memory.
    void finish(const EmbeddedSides<T> &sides) {
        if (!summed_)
            return;
        flush(sides);
        product_.resize(0, 0);
    }

    const std::vector<Entry> &kept() const { return kept_; }

    void add_sums(const EmbeddedSides<T> &sides, Index j, Eigen::RowVectorXd &sum) const {
        if (summed_)
            sum += sums_.row(j);
        if (recent_ > 0)
            sum += of_product(sides) * product_.row(j).template cast<double>();
        if (weighed_)
            sum += 2.0 * column_sums_[j] * sides.database().row(j).template cast<double>();
    }

  private:
    /// Adds the column sums. The rows of a block are summed in T.
    void add_column_sums(View<const T> weights) {
        constexpr Index at_once = 8; // rows that are read side by side
        std::vector<T> part(static_cast<std::size_t>(weights.cols), T(0));
        const auto add = [&](auto rows, Index first) {
            detail::for_registers(part.data(), weights.cols / Vec<T>::width * Vec<T>::width,
                                  [&](Vec<T> sum, Index j) METRICFAST_INLINE {
                                      unrolled<rows>([&](auto r) METRICFAST_INLINE {
                                          sum = sum + Vec<T>::load(weights.row(first + r) + j);
                                      });
                                      return sum;
                                  });
            for (Index j = weights.cols / Vec<T>::width * Vec<T>::width; j < weights.cols; ++j)
                for (Index r = 0; r < rows; ++r)
                    part[j] += weights.row(first + r)[j];
        };
        Index r = 0;
        for (; r + at_once <= weights.rows; r += at_once)
            add(std::integral_constant<int, at_once>{}, r);
        for (; r < weights.rows; ++r)
            add(std::integral_constant<int, 1>{}, r);
        for (Index j = 0; j < weights.cols; ++j)
            column_sums_.data()[j] += static_cast<double>(part[j]);
    }

    void prepare(const EmbeddedSides<T> &sides) {
        if (!summed_)
            sums_.setZero(sides.database().rows(), sides.database().cols());
        summed_ = true;
    }

    static double of_product(const EmbeddedSides<T> &sides) {
        return sides.kind == RowKind::inner_product ? 1.0 : -2.0;
    }

    void flush(const EmbeddedSides<T> &sides) {
        if (recent_ == 0)
            return;
        prepare(sides);
        sums_ += of_product(sides) * product_.template cast<double>();
        recent_ = 0;
    }

    /// Number of anchors that can be summed in T without losing digits.
    static constexpr Index most_recent = 2048;

    std::size_t capacity_ = 0;
    std::vector<Entry> kept_;
    RowMatrix<T> product_; ///< sum over the last `recent_` anchors
    Index recent_ = 0;
    bool summed_ = false; ///< whether `sums_` is in use
    RowMatrix<double> sums_;
    bool weighed_ = false; ///< whether `column_sums_` is in use
    Eigen::VectorXd column_sums_;
};

/// Calls write(j, gradient) for every database point j.
/// \param sorted working memory.
template <class T, class Write>
void sum_shares(const EmbeddedSides<T> &sides, const std::vector<const DatabaseShare<T> *> &shares,
                const Control &control, std::vector<typename DatabaseShare<T>::Entry> &sorted,
                Write &&write) {
    using Entry = typename DatabaseShare<T>::Entry;
    const Index m = sides.database().rows();
    // The stored weights, sorted by column. Column j has sorted[starts[j]] .. sorted[starts[j + 1]
    // - 1].
    std::vector<std::int64_t> starts(static_cast<std::size_t>(m) + 2, 0);
    for (const auto *share : shares)
        for (const Entry &e : share->kept())
            ++starts[e.column + 2];
    for (Index j = 0; j < m; ++j)
        starts[j + 2] += starts[j + 1];
    sorted.resize(static_cast<std::size_t>(starts[m + 1]));
    for (const auto *share : shares)
        for (const Entry &e : share->kept())
            sorted[starts[e.column + 1]++] = e;

    constexpr Index rows = 512;
    parallel_blocks((m + rows - 1) / rows, control, [&](Index b, Worker &) {
        Eigen::RowVectorXd sum(sides.database().cols());
        for (Index j = b * rows; j < std::min(m, (b + 1) * rows); ++j) {
            sum.setZero();
            for (const auto *share : shares)
                share->add_sums(sides, j, sum);
            for (std::int64_t e = starts[j]; e < starts[j + 1]; ++e)
                sides.add(sorted[e].weight, sorted[e].row, j, nullptr, sum.data());
            write(j, sum);
        }
    });
}

METRICFAST_NAMESPACE_END
