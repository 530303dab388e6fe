/// Embeddings and steps of solvers.
#include "areas.hpp"
#include "metricfast/embeddings/linear.hpp"
#include "metricfast/embeddings/optimizer.hpp"
#include "models.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

template <class T> class LevelEmbeddings final : public EmbeddingKernels<T> {
  public:
    void linear_forward(View<const T> x, View<const T> L, View<T> z,
                        const Control &control) const override {
        metricfast::linear_forward<T>(x, L, z, control);
    }
    void linear_backward(View<const T> dz, View<const T> x, View<double> gradient,
                         const Control &control) const override {
        require(gradient.rows == dz.cols && gradient.cols == x.cols,
                "linear_backward: the gradient must have the map's shape");
        eigen(gradient) = metricfast::linear_backward<T>(dz, x, control);
    }
    void layers_forward(View<const T> x, const std::vector<Layer<T>> &layers, Activation activation,
                        const std::vector<View<T>> &outputs,
                        const Control &control) const override {
        metricfast::layers_forward<T>(x, layers, activation, outputs, control);
    }
    void layers_backward(View<const T> x, const std::vector<Layer<T>> &layers,
                         Activation activation, const std::vector<View<const T>> &outputs,
                         const std::vector<View<T>> &deltas,
                         const std::vector<LayerGradient<T>> &gradients,
                         const Control &control) const override {
        metricfast::layers_backward<T>(x, layers, activation, outputs, deltas, gradients, control);
    }
    void normalize_forward(View<T> z, Span<double> lengths, const Control &control) const override {
        metricfast::normalize_forward<T>(z, lengths, control);
    }
    void normalize_backward(View<const T> u, Span<const double> lengths, View<T> gradient,
                            const Control &control) const override {
        metricfast::normalize_backward<T>(u, lengths, gradient, control);
    }
    void periodic_forward(View<const T> x, const PeriodicMap<T> &map, View<T> z,
                          const Control &control) const override {
        metricfast::periodic_forward<T>(x, map, z, control);
    }
    void periodic_backward(View<const T> x, const PeriodicMap<T> &map, View<const T> upstream,
                           const PeriodicGradient<T> &gradient,
                           const Control &control) const override {
        metricfast::periodic_backward<T>(x, map, upstream, gradient, control);
    }
    bool adam_step(Span<const T> x, Span<const T> gradient, Span<T> m, Span<T> v, Span<T> out,
                   const AdamSettings &settings) const override {
        return metricfast::adam_step<T>(x, gradient, m, v, out, settings);
    }
    void momentum_step(Span<const T> x, Span<const T> gradient, Span<T> v, Span<T> out, double rate,
                       double decay, double momentum) const override {
        metricfast::momentum_step<T>(x, gradient, v, out, rate, decay, momentum);
    }
};

} // namespace

template <class T> const EmbeddingKernels<T> &embedding_kernels() {
    static const LevelEmbeddings<T> kernels;
    return kernels;
}
template const EmbeddingKernels<float> &embedding_kernels();
template const EmbeddingKernels<double> &embedding_kernels();

METRICFAST_MODEL_EMBEDDINGS(, float)
METRICFAST_MODEL_EMBEDDINGS(, double)

METRICFAST_NAMESPACE_END
