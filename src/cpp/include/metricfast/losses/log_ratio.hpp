/// Log-ratio loss (Kim et al., 2019), and two ratios without the logarithm.
#pragma once

#include "metricfast/core/pool.hpp"
#include "metricfast/losses/label_distances.hpp"
#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Base class of the losses: the neighbours that an anchor uses.
template <class T> class RatioLoss : public RowLoss<T> {
  public:
    RatioLoss(RatioSettings settings, LabelDistances labels)
        : settings_(settings), labels_(labels) {}

    void check(Index queries, Index database) const override { labels_.check(queries, database); }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        const Index excluded = row.excluded, others = row.others();
        const auto memory = memory_.borrow();
        std::vector<double> &label = *memory;
        const double sum = labels_.fill(row.anchor, excluded, label).sum;
        const double floor =
            settings_.drop_ties ? 0 : settings_.eps_log * sum / static_cast<double>(others);
        if (excluded >= 0)
            label[excluded] = -floor;
        const Index used = drop(label, floor, row.values);
        result.dropped = others - used;
        if (used < 2)
            return row.skip(result.dropped);
        result.terms = used * (used - 1) / 2;
        if (excluded >= 0)
            row.values[excluded] = T(1);
        result.value = weigh(row, label, used);
        return result;
    }

  protected:
    /// The anchor's loss; values become its derivatives. Entries with label distance 0 do not
    /// contribute.
    virtual double weigh(Row<T> &row, const std::vector<double> &label, Index used) const = 0;

    RatioSettings settings_;

  private:
    /// Adds `floor` to label distances. Sets those without a logarithm to 0, also for equal points
    /// if distances have no floor. Returns the number of the others.
    Index drop(std::vector<double> &label, double floor, const T *values) const {
        using V = Vec<double>;
        const double least = 4 * static_cast<double>(std::numeric_limits<T>::min());
        const bool floored = std::max(settings_.eps_distance, settings_.eps_log) > least;
        const V limit = V::broadcast(least), zero = V::broadcast(0), one = V::broadcast(1);
        const V more = V::broadcast(floor);
        const Index count = static_cast<Index>(label.size());
        V used = zero;
        Index left = 0, j = 0;
        for (; j + V::width <= count; j += V::width) {
            V t = V::load(label.data() + j) + more;
            t = t - where_less(t, limit, t);
            if (!floored)
                t = t - where_less(widened(values + j), limit, t);
            t.store(label.data() + j);
            used = used + where_less(zero, t, one);
        }
        for (; j < count; ++j) {
            label[j] += floor;
            if (label[j] < least || (!floored && static_cast<double>(values[j]) < least))
                label[j] = 0.0;
            left += label[j] > 0 ? 1 : 0;
        }
        return left + static_cast<Index>(horizontal_sum(used));
    }

    LabelDistances labels_;
    mutable Pool<std::vector<double>> memory_;
};

/// With e_j = log delta_ij - log (label distance), the mean of (e_i - e_j)^2 over all pairs of the
/// anchor's neighbours, which is twice their variance.
template <class T> class LogRatioLoss : public RatioLoss<T> {
  public:
    using RatioLoss<T>::RatioLoss;

  protected:
    double weigh(Row<T> &row, const std::vector<double> &label, Index used) const override {
        using V = Vec<T>;
        const auto memory = memory_.borrow();
        memory->targets.assign(label.begin(), label.end());
        memory->targets.resize(label.size() + V::width); // the last register has no targets
        memory->errors.resize(memory->targets.size());
        const T *const targets = memory->targets.data();
        T *const errors = memory->errors.data();
        const RatioSettings &with = this->settings_;
        const V zero = V::broadcast(T(0)), one = V::broadcast(T(1)), two = V::broadcast(T(2));
        const V eps_distance = V::broadcast(static_cast<T>(with.eps_distance));
        const V eps_log = V::broadcast(static_cast<T>(with.eps_log));
        // 1 / delta, or with the root 1 / (2 d delta), takes the place of the distance.
        const double mean =
            detail::change_and_sum(row.values, row.count,
                                   [&](V d, Index j) METRICFAST_INLINE {
                                       const V t = V::load(targets + j),
                                               part = where_less(zero, t, one);
                                       const V rest =
                                           one - part; // quotients of 1 and 1 are of no part
                                       d = d + eps_distance;
                                       if (!with.squared)
                                           d = sqrt(d);
                                       const V delta = where_less(zero, t, d + eps_log) + rest;
                                       const V e = log_of_quotient(delta, t + rest);
                                       e.store(errors + j);
                                       const V by = with.squared ? delta : two * d * delta;
                                       const V steep = part / (by + where_equal(by, zero, one));
                                       return std::make_pair(where_less(zero, by, steep), e);
                                   }) /
            static_cast<double>(used);
        const V shift = V::broadcast(static_cast<T>(mean));
        const double n = static_cast<double>(used);
        const V factor = V::broadcast(static_cast<T>(4 / (n - 1)));
        const double square =
            detail::change_and_sum(row.values, row.count, [&](V steep, Index j) METRICFAST_INLINE {
                const V e = where_less(zero, V::load(targets + j), V::load(errors + j) - shift);
                return std::make_pair(steep * (e * factor), e * e);
            });
        return 2 * square / (n - 1);
    }

  private:
    struct Memory {
        std::vector<T> targets, errors;
    };
    mutable Pool<Memory> memory_;
};

/// The mean of (delta_i / delta_j - t_i / t_j)^2 over ordered pairs of neighbours i != j, t being
/// label distances: sums of delta^2, delta^-2, delta t, 1 / (delta t), t^2 and t^-2 suffice.
template <class T> class PlainRatioLoss : public RatioLoss<T> {
  public:
    using RatioLoss<T>::RatioLoss;

  protected:
    double weigh(Row<T> &row, const std::vector<double> &label, Index used) const override {
        const RatioSettings &with = this->settings_;
        std::vector<double> delta(label.size());
        double mean = 0;
        for (Index j = 0; j < row.count; ++j) {
            const double d = static_cast<double>(row.values[j]) + with.eps_distance;
            delta[j] = (with.squared ? d : std::sqrt(d)) + with.eps_log;
            mean += label[j] > 0 ? delta[j] : 0.0;
        }
        mean /= static_cast<double>(used);
        double d2 = 0, over_d2 = 0, dt = 0, over_dt = 0, t2 = 0, over_t2 = 0;
        for (Index j = 0; j < row.count; ++j)
            if (label[j] > 0) {
                const double d = delta[j] / mean, t = label[j];
                d2 += d * d, over_d2 += 1 / (d * d);
                dt += d * t, over_dt += 1 / (d * t);
                t2 += t * t, over_t2 += 1 / (t * t);
            }
        const double pairs = static_cast<double>(used) * static_cast<double>(used - 1);
        for (Index j = 0; j < row.count; ++j) {
            if (!(label[j] > 0)) {
                row.values[j] = T(0);
                continue;
            }
            const double d = delta[j] / mean, t = label[j];
            const double by_delta =
                2 * (d * over_d2 - d2 / (d * d * d) - t * over_dt + dt / (d * d * t)) / mean;
            const double root = delta[j] - with.eps_log; // its derivative by D
            const double by_d = with.squared ? 1.0 : root > 0 ? 1 / (2 * root) : 0.0;
            row.values[j] = static_cast<T>(by_delta / pairs * by_d);
        }
        return std::max(0.0, d2 * over_d2 - 2 * dt * over_dt + t2 * over_t2) / pairs;
    }
};

/// The mean of (delta_i / (delta_i + delta_j) - t_i / (t_i + t_j))^2 over pairs of neighbours i <
/// j, t being label distances: no pair exceeds 1. All pairs are visited, O(m^2) for an anchor.
template <class T> class BoundedRatioLoss : public RatioLoss<T> {
  public:
    using RatioLoss<T>::RatioLoss;

  protected:
    double weigh(Row<T> &row, const std::vector<double> &label, Index used) const override {
        using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
        const RatioSettings &with = this->settings_;
        Array d(used), t(used);
        for (Index j = 0, next = 0; j < row.count; ++j)
            if (label[j] > 0) {
                d[next] = row.values[j];
                t[next++] = static_cast<T>(label[j]);
            }
        d += static_cast<T>(with.eps_distance);
        if (!with.squared)
            d = d.sqrt();
        const Array delta = d + static_cast<T>(with.eps_log);
        Array by_delta = Array::Zero(used), over(used), share(used), error(used);
        double sum = 0;
        for (Index i = 0; i + 1 < used; ++i) {
            const Index rest = used - 1 - i; // share is (1 - share) / (d_i + d_j) steep in d_i
            auto o = over.head(rest), s = share.head(rest), e = error.head(rest);
            o = (delta[i] + delta.tail(rest)).inverse();
            s = delta[i] * o;
            e = s - t[i] * (t[i] + t.tail(rest)).inverse();
            sum += static_cast<double>(e.square().sum());
            e *= o;
            by_delta[i] += (e * (T(1) - s)).sum();
            by_delta.tail(rest) -= e * s;
        }
        const double pairs = static_cast<double>(used) * static_cast<double>(used - 1) / 2;
        by_delta *= static_cast<T>(2 / pairs);
        if (!with.squared)
            by_delta *= (d > T(0)).select((T(2) * d).inverse(), T(0));
        for (Index j = 0, next = 0; j < row.count; ++j)
            row.values[j] = label[j] > 0 ? by_delta[next++] : T(0);
        return sum / pairs;
    }
};

METRICFAST_NAMESPACE_END
