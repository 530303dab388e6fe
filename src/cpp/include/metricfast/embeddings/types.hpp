/// Layers of embeddings, and their gradients.
#pragma once

#include "metricfast/core/views.hpp"

namespace metricfast {

enum class Activation { identity, relu, tanh };

/// a = f(W x + b), with W (width, inputs). f is the identity in the last layer.
template <class T> struct Layer {
    View<const T> weight;
    Span<const T> bias; ///< `width` values, or null for none
};

/// Output of a layer's gradient; the bias is null for a layer without one.
template <class T> struct LayerGradient {
    View<T> weight;
    Span<T> bias;
};

/// z = L [h_1, ..., h_d, rest] with h_f = relu(A [cos 2 pi c_f x_f, sin 2 pi c_f x_f] + a) for the
/// first d features of a point; `rest` are its other features, unchanged.
template <class T> struct PeriodicMap {
    View<const T> frequencies; ///< c (d, m)
    View<const T> mix;         ///< A (e, 2 m)
    Span<const T> shift;       ///< a (e)
    View<const T> map;         ///< L (p, d e + rest)

    Index features() const { return frequencies.rows; }
    Index waves() const { return frequencies.cols; }
    Index width() const { return mix.rows; } ///< outputs per feature
    Index rest() const { return map.cols - features() * width(); }

    void check(View<const T> x) const {
        require(features() > 0 && waves() > 0 && width() > 0 && mix.cols == 2 * waves() &&
                    shift.size() == width() && rest() >= 0 && x.cols == features() + rest(),
                "periodic: shapes must be X (n,d+rest), c (d,m), A (e,2m), a (e), L (p,d*e+rest)");
    }

    double products(Index n) const {
        const double of_feature = static_cast<double>(2 * waves() * (width() + 8));
        return static_cast<double>(n) * (static_cast<double>(features()) * of_feature +
                                         static_cast<double>(map.rows * map.cols));
    }
};

/// Outputs of the gradient, with the shapes of the parameters.
template <class T> struct PeriodicGradient {
    View<T> frequencies;
    View<T> mix;
    Span<T> shift;
    View<T> map;

    void check(const PeriodicMap<T> &periodic) const {
        const auto same = [](View<T> gradient, View<const T> parameter) {
            return gradient.rows == parameter.rows && gradient.cols == parameter.cols;
        };
        require(same(frequencies, periodic.frequencies) && same(mix, periodic.mix) &&
                    same(map, periodic.map) && shift.size() == periodic.width(),
                "periodic: gradients must have the shapes of the parameters");
    }
};

/// A step of Adam.
struct AdamSettings {
    double rate;           ///< the learning rate
    double decay = 0;      ///< weight decay
    double step = 1;       ///< the number of the step, from 1
    bool relative = false; ///< ignore gradients that are rounding errors beside the largest one
};

} // namespace metricfast
