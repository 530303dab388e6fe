/// Log-ratio loss (Kim et al., 2019), and two ratios without the logarithm.
#pragma once

#include "metricfast/losses/label_distances.hpp"
#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// What the losses share: the neighbours that an anchor uses.
template <class T> class RatioLoss : public RowLoss<T> {
  public:
    RatioLoss(RatioSettings settings, LabelDistances labels)
        : settings_(settings), labels_(labels) {}

    void check(Index queries, Index database) const override { labels_.check(queries, database); }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        const Index excluded = row.excluded, others = row.others();
        std::vector<double> label;
        labels_.fill(row.anchor, excluded, label);
        if (!settings_.drop_ties) {
            double sum = 0;
            for (const double t : label)
                sum += t;
            const double floor = settings_.eps_log * sum / static_cast<double>(others);
            for (double &t : label)
                t += floor;
        }
        if (excluded >= 0)
            label[excluded] = 0.0;
        // Without floors, what coincides has no logarithm.
        const double least = 4 * static_cast<double>(std::numeric_limits<T>::min());
        const bool floored = std::max(settings_.eps_distance, settings_.eps_log) > least;
        Index used = 0;
        for (Index j = 0; j < row.count; ++j) {
            if (label[j] < least || (!floored && static_cast<double>(row.values[j]) < least))
                label[j] = 0.0;
            used += label[j] > 0 ? 1 : 0;
        }
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
    /// The anchor's loss; values become its derivatives. Entries whose label distance is 0 take no
    /// part.
    virtual double weigh(Row<T> &row, const std::vector<double> &label, Index used) const = 0;

    RatioSettings settings_;

  private:
    LabelDistances labels_;
};

/// With e_j = log delta_ij - log (label distance), the mean of (e_i - e_j)^2 over all pairs of the
/// anchor's neighbours, which is twice their variance.
template <class T> class LogRatioLoss : public RatioLoss<T> {
  public:
    using RatioLoss<T>::RatioLoss;

  protected:
    double weigh(Row<T> &row, const std::vector<double> &label, Index used) const override {
        using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
        const RatioSettings &with = this->settings_;
        Eigen::Map<Array> d(row.values, row.count);
        Array takes_part(row.count), t(row.count);
        for (Index j = 0; j < row.count; ++j) {
            takes_part[j] = label[j] > 0 ? T(1) : T(0);
            t[j] = label[j] > 0 ? static_cast<T>(label[j]) : T(1);
        }
        // log(d + eps_distance + eps_log), or with the root: d becomes its derivative.
        d += static_cast<T>(with.eps_distance);
        Array e(row.count);
        if (with.squared) {
            d += static_cast<T>(with.eps_log);
            d = (takes_part > T(0)).select(d, T(1));
            e = d.log() - t.log();
            d = d.inverse();
        } else {
            d = (takes_part > T(0)).select(d, T(1)).sqrt();
            e = (d + static_cast<T>(with.eps_log)).log() - t.log();
            d = (d > T(0)).select((T(2) * d * (d + static_cast<T>(with.eps_log))).inverse(), T(0));
        }
        e *= takes_part;
        const double n = static_cast<double>(used);
        Row<T> errors{row.anchor, row.excluded, row.count, nullptr, e.data()};
        const double mean = sum_of(errors.values, errors.count) / n;
        e = (e - static_cast<T>(mean)) * takes_part;
        d *= takes_part * e * static_cast<T>(4 / (n - 1));
        e *= e;
        return 2 * sum_of(errors.values, errors.count) / (n - 1);
    }
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
