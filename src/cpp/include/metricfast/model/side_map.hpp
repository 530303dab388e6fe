/// The learned map of one side: queries or database points.
#pragma once

#include <cmath>
#include <optional>

#include "metricfast/embeddings/mlp.hpp"
#include "metricfast/embeddings/normalize.hpp"
#include "metricfast/embeddings/periodic.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The map z = layers(x - mean), optionally normalised to unit length, computed in T.
template <class T> struct SideMap {
    /// Periodic features of the first numbers of each point; see PeriodicMap.
    struct Waves {
        RowMatrix<T> frequencies, mix;
        std::vector<T> shift;

        /// The number of values after replacing numbers by their periodic features.
        Index width(Index n_features) const {
            return n_features + frequencies.rows() * (mix.rows() - 1);
        }
    };
    struct Weights {
        RowMatrix<T> weight;
        std::vector<T> bias; ///< empty for none
    };

    std::vector<T> mean;         ///< empty for zero
    std::optional<Waves> waves;  ///< input of the only layer, if it is not the points
    std::vector<Weights> layers; ///< empty for the identity
    Activation activation = Activation::identity;
    bool normalize = false;

    template <class U> SideMap<U> cast() const {
        SideMap<U> other{{mean.begin(), mean.end()}, {}, {}, activation, normalize};
        if (waves)
            other.waves = {waves->frequencies.template cast<U>(),
                           waves->mix.template cast<U>(),
                           {waves->shift.begin(), waves->shift.end()}};
        for (const Weights &layer : layers)
            other.layers.push_back(
                {layer.weight.template cast<U>(), {layer.bias.begin(), layer.bias.end()}});
        return other;
    }

    /// \param z (x.rows, n_components), output: the result of `learner.transform` in Python. For
    ///   embeddings, the results are bit-identical on the same instruction set. For other learners,
    ///   Python uses a NumPy product, which rounds differently.
    void apply(View<const T> x, View<T> z, const Control &control) const {
        constexpr Index block = 16384; // points per block of hidden layers
        for (Index first = 0; first < x.rows; first += block) {
            const Index count = std::min(block, x.rows - first);
            apply_block(x.middle_rows(first, count), z.middle_rows(first, count), control);
        }
    }

  private:
    void apply_block(View<const T> x, View<T> z, const Control &control) const {
        RowMatrix<T> centred;
        if (!mean.empty()) {
            const Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>> middle(mean.data(), x.cols);
            centred = eigen(x).rowwise() - middle;
            x = view(centred);
        }
        if (layers.empty())
            eigen(z) = eigen(x);
        else if (waves)
            periodic_forward<T>(
                x,
                {view(waves->frequencies), view(waves->mix), waves->shift, view(layers[0].weight)},
                z, control);
        else
            through_layers(x, z, control);
        if (normalize) {
            shrink(z);
            std::vector<double> lengths(static_cast<std::size_t>(z.rows));
            normalize_forward<T>(z, lengths, control);
        }
    }

    void through_layers(View<const T> x, View<T> z, const Control &control) const {
        std::vector<Layer<T>> chain;
        std::vector<RowMatrix<T>> hidden(layers.size() - 1);
        std::vector<View<T>> outputs;
        for (std::size_t l = 0; l < layers.size(); ++l) {
            const Weights &layer = layers[l];
            chain.push_back({view(layer.weight),
                             layer.bias.empty() ? Span<const T>() : Span<const T>(layer.bias)});
            if (l < hidden.size())
                hidden[l].resize(x.rows, layer.weight.rows());
            outputs.push_back(l < hidden.size() ? view(hidden[l]) : z);
        }
        layers_forward<T>(x, chain, activation, outputs, control);
    }

    /// Scales down rows whose squared length would overflow a double.
    static void shrink(View<T> z) {
        constexpr double many = 1e140; // its square times any number of columns is finite
        for (Index i = 0; i < z.rows; ++i) {
            auto row = eigen(z).row(i);
            const double largest = static_cast<double>(row.cwiseAbs().maxCoeff());
            if (largest >= many && std::isfinite(largest))
                row *= static_cast<T>(1 / largest);
        }
    }
};

METRICFAST_NAMESPACE_END
