#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

void forward_linear(const py::array &x, const py::array &L, py::array z, int threads) {
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const auto points = matrix<T>(x), map = matrix<T>(L);
        const View<T> result = writable<T>(z);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.linear_forward(points, map, result, run);
    });
}

py::array_t<double> backward_linear(const py::array &dz, const py::array &x, int threads) {
    py::array_t<double> gradient({dz.shape(1), x.shape(1)});
    const View<double> out = writable<double>(gradient);
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const auto upstream = matrix<T>(dz), points = matrix<T>(x);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.linear_backward(upstream, points, out, run);
    });
    return gradient;
}

Activation activation_of(const std::string &name) {
    require(name == "identity" || name == "relu" || name == "tanh", "unknown activation");
    return name == "relu" ? Activation::relu
                          : (name == "tanh" ? Activation::tanh : Activation::identity);
}

template <class T> View<const T> matrix_or_none(const py::object &a) {
    return a.is_none() ? View<const T>() : matrix<T>(py::cast<py::array>(a));
}

template <class T>
std::vector<Layer<T>> layers_of(const py::list &weights, const py::list &biases) {
    require(weights.size() == biases.size(), "expected one bias, or None, per layer");
    std::vector<Layer<T>> layers;
    for (std::size_t l = 0; l < weights.size(); ++l) {
        const View<const T> weight = matrix<T>(py::cast<py::array>(weights[l]));
        layers.push_back({weight, elements<T>(biases[l], weight.rows, "bias")});
    }
    return layers;
}

template <class T> std::vector<View<T>> writable_list(const py::list &arrays) {
    std::vector<View<T>> views;
    for (const auto &item : arrays) {
        auto a = py::cast<py::array>(item);
        views.push_back(writable<T>(a));
    }
    return views;
}

void forward_layers(const py::object &x, const py::list &weights, const py::list &biases,
                    const std::string &activation, const py::list &outputs, int threads) {
    require(!outputs.empty(), "no layers");
    by_precision(py::cast<py::array>(outputs[0]), [&](auto zero) {
        using T = decltype(zero);
        const View<const T> points = matrix_or_none<T>(x);
        const auto layers = layers_of<T>(weights, biases);
        const auto out = writable_list<T>(outputs);
        const Activation f = activation_of(activation);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.layers_forward(points, layers, f, out, run);
    });
}

void backward_layers(const py::object &x, const py::list &weights, const py::list &biases,
                     const std::string &activation, const py::list &outputs, const py::list &deltas,
                     const py::list &weight_gradients, const py::list &bias_gradients,
                     int threads) {
    require(!outputs.empty(), "no layers");
    by_precision(py::cast<py::array>(outputs[0]), [&](auto zero) {
        using T = decltype(zero);
        const View<const T> points = matrix_or_none<T>(x);
        const auto layers = layers_of<T>(weights, biases);
        std::vector<View<const T>> seen;
        for (const auto &item : outputs)
            seen.push_back(matrix<T>(py::cast<py::array>(item)));
        const auto flow = writable_list<T>(deltas);
        std::vector<LayerGradient<T>> gradients;
        require(bias_gradients.size() == weight_gradients.size(),
                "expected one bias, or None, per layer");
        for (const View<T> weight : writable_list<T>(weight_gradients)) {
            const py::object bias = bias_gradients[gradients.size()];
            Span<T> into;
            if (!bias.is_none()) {
                auto a = py::cast<py::array>(bias);
                into = writable_elements<T>(a, weight.rows, "bias gradient");
            }
            gradients.push_back({weight, into});
        }
        const Activation f = activation_of(activation);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.layers_backward(points, layers, f, seen, flow, gradients, run);
    });
}

void forward_normalize(py::array z, py::array lengths, int threads) {
    by_precision(z, [&](auto zero) {
        using T = decltype(zero);
        const View<T> rows = writable<T>(z);
        const auto out = writable_elements<double>(lengths, rows.rows, "lengths");
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.normalize_forward(rows, out, run);
    });
}

void backward_normalize(const py::array &u, const py::array &lengths, py::array gradient,
                        int threads) {
    by_precision(u, [&](auto zero) {
        using T = decltype(zero);
        const View<const T> rows = matrix<T>(u);
        const auto sizes = elements<double>(lengths, rows.rows, "lengths");
        const View<T> g = writable<T>(gradient);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.normalize_backward(rows, sizes, g, run);
    });
}

/// Builds the map from its parameters [c, A, a, L].
template <class T> PeriodicMap<T> periodic_map(const py::list &parameters) {
    require(parameters.size() == 4, "periodic: there must be four parameters");
    const auto array = [&](int i) { return py::cast<py::array>(parameters[i]); };
    const View<const T> mix = matrix<T>(array(1));
    return {matrix<T>(array(0)), mix, elements<T>(array(2), mix.rows, "shift"),
            matrix<T>(array(3))};
}

void forward_periodic(const py::array &x, const py::list &parameters, py::array z, int threads) {
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const View<const T> points = matrix<T>(x);
        const PeriodicMap<T> of = periodic_map<T>(parameters);
        const View<T> out = writable<T>(z);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.periodic_forward(points, of, out, run);
    });
}

void backward_periodic(const py::array &x, const py::list &parameters, const py::array &upstream,
                       const py::list &gradients, int threads) {
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const View<const T> points = matrix<T>(x), dz = matrix<T>(upstream);
        const PeriodicMap<T> of = periodic_map<T>(parameters);
        require(gradients.size() == 4, "periodic: there must be four gradients");
        const auto array = [&](int i) { return py::cast<py::array>(gradients[i]); };
        py::array c = array(0), mix = array(1), shift = array(2), map = array(3);
        const PeriodicGradient<T> into{writable<T>(c), writable<T>(mix),
                                       writable_elements<T>(shift, of.width(), "shift gradient"),
                                       writable<T>(map)};
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().embeddings.periodic_backward(points, of, dz, into, run);
    });
}

bool step_adam(const py::array &x, const py::array &gradient, py::array m, py::array v,
               py::array out, double rate, double decay, double step, bool relative) {
    return by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const Index n = x.size();
        return kernels().of<T>().embeddings.adam_step(
            elements<T>(x, n, "x"), elements<T>(gradient, n, "gradient"),
            writable_elements<T>(m, n, "m"), writable_elements<T>(v, n, "v"),
            writable_elements<T>(out, n, "out"), {rate, decay, step, relative});
    });
}

void step_momentum(const py::array &x, const py::array &gradient, py::array v, py::array out,
                   double rate, double decay, double momentum) {
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const Index n = x.size();
        kernels().of<T>().embeddings.momentum_step(
            elements<T>(x, n, "x"), elements<T>(gradient, n, "gradient"),
            writable_elements<T>(v, n, "v"), writable_elements<T>(out, n, "out"), rate, decay,
            momentum);
    });
}

} // namespace

void register_embeddings(py::module_ &m) {
    m.def("linear_forward", &forward_linear);
    m.def("linear_backward", &backward_linear);
    m.def("layers_forward", &forward_layers);
    m.def("layers_backward", &backward_layers);
    m.def("normalize_forward", &forward_normalize);
    m.def("normalize_backward", &backward_normalize);
    m.def("periodic_forward", &forward_periodic);
    m.def("periodic_backward", &backward_periodic);
    m.def("adam_step", &step_adam, py::arg("x"), py::arg("gradient"), py::arg("m"), py::arg("v"),
          py::arg("out"), py::arg("rate"), py::arg("decay"), py::arg("step"),
          py::arg("relative") = false);
    m.def("momentum_step", &step_momentum);
}

} // namespace metricfast::python
