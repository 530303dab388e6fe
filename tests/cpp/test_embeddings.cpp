#include "check.hpp"
#include "points.hpp"

#include "metricfast/embeddings/mlp.hpp"
#include "metricfast/embeddings/normalize.hpp"
#include "metricfast/embeddings/optimizer.hpp"
#include "metricfast/embeddings/periodic.hpp"

namespace test_embeddings {

using namespace metricfast;

namespace {

/// A perceptron of one hidden layer and unit-length rows, and what passes through it.
template <class T> struct Perceptron {
    RowMatrix<T> x, first, second;
    std::vector<T> bias = std::vector<T>(first.rows(), T(0.1));
    Activation f;
    std::vector<RowMatrix<T>> outputs;
    std::vector<double> lengths;

    Perceptron(Index n, Activation f_)
        : x(random_points<T>(n, 5)), first(random_points<T>(4, 5)), second(random_points<T>(3, 4)),
          f(f_), outputs{RowMatrix<T>(n, 4), RowMatrix<T>(n, 3)}, lengths(n) {}

    std::vector<Layer<T>> layers() const { return {{seen(first), bias}, {seen(second), nullptr}}; }

    /// The sum of the embedded points' values times weights.
    double value(const RowMatrix<T> &weights, const Control &control = {}) {
        layers_forward<T>(seen(x), layers(), f, {view(outputs[0]), view(outputs[1])}, control);
        normalize_forward<T>(view(outputs[1]), lengths, control);
        return (outputs[1].template cast<double>().array() *
                weights.template cast<double>().array())
            .sum();
    }

    /// Gradients in the first weight, the bias and the second weight.
    std::vector<RowMatrix<T>> gradients(const RowMatrix<T> &weights, const Control &control = {}) {
        value(weights, control);
        RowMatrix<T> inner(x.rows(), 4), upstream = weights;
        std::vector<RowMatrix<T>> found{RowMatrix<T>(4, 5), RowMatrix<T>(1, 4), RowMatrix<T>(3, 4)};
        normalize_backward<T>(seen(outputs[1]), lengths, view(upstream), control);
        layers_backward<T>(
            seen(x), layers(), f, {seen(outputs[0]), seen(outputs[1])},
            {view(inner), view(upstream)},
            {{view(found[0]), {found[1].data(), found[1].size()}}, {view(found[2]), nullptr}},
            control);
        return found;
    }
};

} // namespace

TEST(backward_is_the_slope_of_forward) {
    for (const Activation f : {Activation::identity, Activation::relu, Activation::tanh}) {
        Perceptron<double> net(300, f);
        const RowMatrix<double> weights = random_points<double>(300, 3);
        const auto found = net.gradients(weights);
        const auto slope = [&](double &parameter) {
            const double kept = parameter, step = 1e-6;
            parameter = kept + step;
            const double after = net.value(weights);
            parameter = kept - step;
            const double before = net.value(weights);
            parameter = kept;
            return (after - before) / (2 * step);
        };
        CHECK_NEAR(found[0](2, 3), slope(net.first(2, 3)), 1e-5);
        CHECK_NEAR(found[1](0, 1), slope(net.bias[1]), 1e-5);
        CHECK_NEAR(found[2](1, 0), slope(net.second(1, 0)), 1e-5);
    }
}

TEST(threads_do_not_change_a_bit) {
    Perceptron<float> net(5000, Activation::tanh);
    const RowMatrix<float> weights = random_points<float>(5000, 3);
    const auto one = net.gradients(weights, {1, {}, {}}),
               three = net.gradients(weights, {3, {}, {}});
    for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(one[i] == three[i]);
}

TEST(periodic_features_have_the_slopes_of_their_map) {
    constexpr Index n = 300, d = 3, m = 2, e = 2, p = 2;
    const RowMatrix<double> x = random_points<double>(n, d + 1),
                            weights = random_points<double>(n, p);
    RowMatrix<double> c = random_points<double>(d, m), mix = random_points<double>(e, 2 * m),
                      map = random_points<double>(p, d * e + 1), z(n, p);
    std::vector<double> shift{0.3, -0.2};
    const auto of = [&] { return PeriodicMap<double>{seen(c), seen(mix), shift, seen(map)}; };
    const auto value = [&] {
        periodic_forward<double>(seen(x), of(), view(z));
        return (z.array() * weights.array()).sum();
    };
    const auto gradient = [&](int threads) {
        std::vector<RowMatrix<double>> found{RowMatrix<double>(d, m), RowMatrix<double>(e, 2 * m),
                                             RowMatrix<double>(1, e),
                                             RowMatrix<double>(p, d * e + 1)};
        periodic_backward<double>(
            seen(x), of(), seen(weights),
            {view(found[0]), view(found[1]), {found[2].data(), found[2].size()}, view(found[3])},
            {threads, {}, {}});
        return found;
    };
    const auto found = gradient(1), again = gradient(3);
    for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(found[i] == again[i]);
    const auto slope = [&](double &parameter) {
        const double kept = parameter, step = 1e-6;
        parameter = kept + step;
        const double after = value();
        parameter = kept - step;
        const double before = value();
        parameter = kept;
        return (after - before) / (2 * step);
    };
    CHECK_NEAR(found[0](2, 1), slope(c(2, 1)), 1e-4);
    CHECK_NEAR(found[1](1, 3), slope(mix(1, 3)), 1e-4);
    CHECK_NEAR(found[2](0, 1), slope(shift[1]), 1e-4);
    CHECK_NEAR(found[3](1, d * e), slope(map(1, d * e)), 1e-4);
    RowMatrix<double> narrow(n, d);
    CHECK_THROWS(std::invalid_argument, "shapes must be",
                 periodic_forward<double>(seen(narrow), of(), view(z)));
}

TEST(rows_without_length_become_zero) {
    RowMatrix<double> z(2, 2), gradient = RowMatrix<double>::Ones(2, 2);
    z << 0, 1e-13, 0, 2;
    std::vector<double> lengths(2);
    normalize_forward<double>(view(z), lengths);
    CHECK(z(0, 1) == 0 && z(1, 1) == 1);
    normalize_backward<double>(seen(z), lengths, view(gradient));
    CHECK(gradient(0, 0) == 0 && gradient(1, 0) == 0.5 && gradient(1, 1) == 0);
}

TEST(shapes_are_checked) {
    Perceptron<double> net(6, Activation::relu);
    CHECK_THROWS(std::invalid_argument, "shapes must be",
                 layers_forward<double>(seen(net.second), net.layers(), net.f,
                                        {view(net.outputs[0]), view(net.outputs[1])}));
    CHECK_THROWS(std::invalid_argument, "one output per layer",
                 layers_forward<double>(seen(net.x), net.layers(), net.f, {view(net.outputs[0])}));
}

TEST(relative_steps_of_adam_do_not_depend_on_units) {
    const std::vector<double> x{1, 2, 3};
    for (const double unit : {1.0, 0x1p-40, 0x1p100}) {
        const std::vector<double> gradient{1e-3 * unit, -5 * unit, 1e-14 * unit};
        std::vector<double> m(3), v(3), out(3);
        CHECK(adam_step<double>(x, gradient, m, v, out, {0.1, 0, 1, true}));
        CHECK_NEAR(out[0], 0.9, 1e-5);
        CHECK_NEAR(out[1], 2.1, 1e-6);
        CHECK(out[2] == 3); // a rounding error of the largest gradient
    }
    const std::vector<double> large{1, 2, 0x1p600};
    std::vector<double> m(3), v(3), out(3);
    CHECK(!adam_step<double>(x, large, m, v, out, {0.1, 0, 1, true}));
}

} // namespace test_embeddings
