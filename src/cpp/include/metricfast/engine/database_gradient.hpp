/// The database's side of a row loss's gradient.
///
/// Each anchor adds to the gradient of every database point that it has a weight for. A lane of the
/// row engine collects its share by itself; shares are added in the order of the lanes.
#pragma once

#include "metricfast/engine/row_problem.hpp"
#include "metricfast/simd/packing.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

/// What weights refer to: queries and database. Gradients of distances do not change with the
/// origin, and lose fewer digits amid the points, so these are centred.
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

    /// A weight w of query i and database point j adds to the gradients of the two: of distances
    /// 2w (a - b) and its negative, of inner products w b and w a. null: to one of them alone.
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

/// One lane's share. Sparse weights are kept as they are, which costs least; past the capacity they
/// go into an accumulator of the gradient's size, where dense ones go at once.
template <class T> class DatabaseShare {
  public:
    struct Entry {
        std::int32_t row;
        std::int32_t column;
        T weight;
    };

    /// Forgets all that was added, but for the memory.
    /// \param bytes what the kept weights may take.
    void reset(std::size_t bytes) {
        capacity_ = bytes / sizeof(Entry);
        kept_.clear();
        recent_ = 0;
        summed_ = weighed_ = false;
    }

    /// A weight of a pair, whose share of the query's own gradient is added to `own`.
    void add(const EmbeddedSides<T> &sides, Index row, Index column, T weight, double *own) {
        if (summed_) {
            sides.add(weight, row, column, own, sums_.row(column).data());
            return;
        }
        sides.add(weight, row, column, own, nullptr);
        kept_.push_back(
            {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column), weight});
        if (kept_.size() <= capacity_)
            return;
        prepare(sides);
        for (const Entry &e : kept_)
            sides.add(e.weight, e.row, e.column, nullptr, sums_.row(e.column).data());
        kept_.clear();
    }

    /// Dense weights W of the anchors from `first` on. Products W^T Zq are summed in T for a while:
    /// sums in double are large, and so is the cost of a pass over them.
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

    /// After the last block: what is not needed any more is released.
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
    /// Rows of a block are summed in T.
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

    static constexpr Index most_recent = 2048; ///< of whose sum T keeps the digits

    std::size_t capacity_ = 0;
    std::vector<Entry> kept_;
    RowMatrix<T> product_; ///< of the last `recent_` anchors
    Index recent_ = 0;
    bool summed_ = false; ///< there are sums
    RowMatrix<double> sums_;
    bool weighed_ = false; ///< there are sums of columns
    Eigen::VectorXd column_sums_;
};

/// write(j, gradient of database point j) for all j.
/// \param sorted memory to work in.
template <class T, class Write>
void sum_shares(const EmbeddedSides<T> &sides, const std::vector<const DatabaseShare<T> *> &shares,
                const Control &control, std::vector<typename DatabaseShare<T>::Entry> &sorted,
                Write &&write) {
    using Entry = typename DatabaseShare<T>::Entry;
    const Index m = sides.database().rows();
    // Kept weights sorted by column: those of column j are sorted[starts[j]] .. sorted[starts[j +
    // 1]].
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
