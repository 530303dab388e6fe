/// Fully connected layers: forward and backward.
#pragma once

#include "metricfast/core/work.hpp"
#include "metricfast/embeddings/types.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

inline constexpr Index layer_rows = 128;    ///< points per block through all layers
inline constexpr Index tile_rows = 128;     ///< of a weight's gradient
inline constexpr Index tile_columns = 256;  ///< of a weight's gradient
inline constexpr Index product_rows = 2048; ///< points whose products are summed in T

template <class T> double products_of(const std::vector<Layer<T>> &layers, Index n) {
    double products = 0;
    for (const Layer<T> &layer : layers)
        products += static_cast<double>(layer.weight.rows * layer.weight.cols * n);
    return products;
}

/// Hyperbolic tangents of aligned copies: Eigen rounds vectorised and single values differently,
/// and results must not depend on the memory alignment.
template <class T> void tanh_of(T *values, Index size) {
    constexpr Index room = 256;
    Eigen::Array<T, room, 1> some = Eigen::Array<T, room, 1>::Zero();
    for (Index i = 0; i < size; i += room) {
        const Index count = std::min(size - i, room);
        std::copy(values + i, values + i + count, some.data());
        some = some.tanh();
        std::copy(some.data(), some.data() + count, values + i);
    }
}

template <class T> void activate(Activation f, View<T> a) {
    for (Index i = 0; i < a.rows; ++i) {
        T *row = a.row(i);
        if (f == Activation::relu)
            for (Index j = 0; j < a.cols; ++j)
                row[j] = row[j] < T(0) ? T(0) : row[j]; // NaN stays
        else if (f == Activation::tanh)
            tanh_of(row, a.cols);
    }
}

/// delta *= f'(.), from the layer's output a: 1 where a > 0 for relu, 1 - a^2 for tanh.
template <class T> void times_slope(Activation f, View<const T> a, View<T> delta) {
    for (Index i = 0; i < a.rows; ++i) {
        const T *out = a.row(i);
        T *d = delta.row(i);
        if (f == Activation::relu)
            for (Index j = 0; j < a.cols; ++j)
                d[j] = out[j] > T(0) ? d[j] : T(0);
        else if (f == Activation::tanh)
            for (Index j = 0; j < a.cols; ++j)
                d[j] *= T(1) - out[j] * out[j];
    }
}

} // namespace detail

/// Outputs of all layers, (n, width) each.
/// \param x (n, inputs); null data: outputs[0] already holds x W^T of the first layer, so that
///   points may be sparse.
template <class T>
void layers_forward(View<const T> x, const std::vector<Layer<T>> &layers, Activation f,
                    const std::vector<View<T>> &outputs, const Control &control = {}) {
    require(!layers.empty() && layers.size() == outputs.size(),
            "layers_forward: one output per layer");
    const Index n = outputs[0].rows;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const View<const T> in = l == 0 ? x : View<const T>(outputs[l - 1]);
        const bool fits = in.data == nullptr || (in.rows == n && in.cols == layers[l].weight.cols);
        require(fits && outputs[l].rows == n && outputs[l].cols == layers[l].weight.rows,
                "layers_forward: shapes must be X (n,d), W (width,d), A (n,width)");
        require_each(layers[l].bias, layers[l].weight.rows,
                     "layers_forward: a bias must have one value a unit of its layer");
    }
    const Control how = worth_it(control, detail::products_of(layers, n));
    constexpr Index block = detail::layer_rows;
    parallel_blocks((n + block - 1) / block, how, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, n - first);
        for (std::size_t l = 0; l < layers.size(); ++l) {
            const View<T> out = outputs[l].middle_rows(first, count);
            const View<const T> in = l == 0 ? x : View<const T>(outputs[l - 1]);
            if (in.data != nullptr)
                detail::multiply_nt<T>(in.middle_rows(first, count), layers[l].weight, out);
            if (layers[l].bias != nullptr)
                eigen(out).rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(
                    layers[l].bias.data(), out.cols);
            if (l + 1 < layers.size())
                detail::activate(f, out);
        }
    });
}

/// Gradients by all layers from the gradient by the last output. Sums over points use fixed blocks,
/// so that results do not depend on the number of threads.
/// \param x as for layers_forward; null data: the first weight's gradient, deltas[0]^T x, is left
///   to the caller.
/// \param outputs of layers_forward.
/// \param deltas (n, width) each, the gradients by W x + b: the last is input, the others are
///   output.
template <class T>
void layers_backward(View<const T> x, const std::vector<Layer<T>> &layers, Activation f,
                     const std::vector<View<const T>> &outputs, const std::vector<View<T>> &deltas,
                     const std::vector<LayerGradient<T>> &gradients, const Control &control = {}) {
    const std::size_t depth = layers.size();
    require(depth > 0 && outputs.size() == depth && deltas.size() == depth &&
                gradients.size() == depth,
            "layers_backward: one output, delta and gradient per layer");
    const Index n = deltas[0].rows;
    for (std::size_t l = 0; l < depth; ++l) {
        require_each(gradients[l].bias, layers[l].weight.rows,
                     "layers_backward: a bias must have one value a unit of its layer");
        require(outputs[l].rows == n && deltas[l].rows == n &&
                    outputs[l].cols == layers[l].weight.rows &&
                    deltas[l].cols == layers[l].weight.rows &&
                    gradients[l].weight.rows == layers[l].weight.rows &&
                    gradients[l].weight.cols == layers[l].weight.cols &&
                    (l > 0 ? outputs[l - 1].cols == layers[l].weight.cols
                           : x.data == nullptr || (x.rows == n && x.cols == layers[l].weight.cols)),
                "layers_backward: shapes of outputs, deltas and gradients must be the layers'");
    }
    const Control how = worth_it(control, detail::products_of(layers, n));
    if (depth > 1) {
        constexpr Index block = detail::layer_rows;
        parallel_blocks((n + block - 1) / block, how, [&](Index b, Worker &) {
            const Index first = b * block, count = std::min(block, n - first);
            for (std::size_t l = depth - 1; l > 0; --l) {
                const View<T> delta = deltas[l - 1].middle_rows(first, count);
                detail::multiply<T>(deltas[l].middle_rows(first, count), layers[l].weight, delta);
                detail::times_slope(f, outputs[l - 1].middle_rows(first, count), delta);
            }
        });
    }
    struct Tile {
        std::size_t layer;
        Index row, column; // column -1 is the bias
    };
    std::vector<Tile> tiles;
    for (std::size_t l = 0; l < depth; ++l) {
        const View<T> weight = gradients[l].weight;
        if (l > 0 || x.data != nullptr)
            for (Index r = 0; r < weight.rows; r += detail::tile_rows)
                for (Index c = 0; c < weight.cols; c += detail::tile_columns)
                    tiles.push_back({l, r, c});
        if (gradients[l].bias != nullptr)
            tiles.push_back({l, 0, -1});
    }
    parallel_blocks(static_cast<Index>(tiles.size()), how, [&](Index t, Worker &) {
        const Tile &tile = tiles[static_cast<std::size_t>(t)];
        const std::size_t l = tile.layer;
        const Index r = tile.row, c = tile.column;
        const View<const T> delta = deltas[l];
        if (c < 0) {
            // Row by row: a vectorised sum would depend on the memory alignment of rows.
            std::vector<double> sum(static_cast<std::size_t>(delta.cols), 0.0);
            for (Index i = 0; i < n; ++i)
                for (Index j = 0; j < delta.cols; ++j)
                    sum[static_cast<std::size_t>(j)] += static_cast<double>(delta.row(i)[j]);
            std::copy(sum.begin(), sum.end(), gradients[l].bias.begin());
            return;
        }
        const View<const T> in = l == 0 ? x : outputs[l - 1];
        const Index height = std::min(detail::tile_rows, delta.cols - r);
        const Index width = std::min(detail::tile_columns, in.cols - c);
        const View<T> out = gradients[l].weight.block(r, c, height, width);
        const auto product = [&](Index first, Index count, View<T> into) {
            detail::multiply_tn<T>(delta.block(first, r, count, height),
                                   in.block(first, c, count, width), into);
        };
        if (n <= detail::product_rows) {
            product(0, n, out);
            return;
        }
        RowMatrix<double> sum = RowMatrix<double>::Zero(height, width);
        RowMatrix<T> part(height, width);
        for (Index first = 0; first < n; first += detail::product_rows) {
            product(first, std::min(detail::product_rows, n - first), view(part));
            sum += part.template cast<double>();
        }
        eigen(out) = sum.template cast<T>();
    });
}

METRICFAST_NAMESPACE_END
