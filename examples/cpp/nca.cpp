// Learns a metric with NCA and searches under it, in C++ only.
//
// Reads points as text: on each line the coordinates, then an integer label, separated by spaces.
// Without a file it generates two classes that differ in one of many noisy coordinates.

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include <metricfast/metricfast.hpp>

using metricfast::Index;
using metricfast::RowMatrix;

struct Data {
    RowMatrix<double> points;
    std::vector<std::int64_t> labels;
};

static Data read(const char *path) {
    std::ifstream file(path);
    if (!file)
        throw std::invalid_argument(std::string("cannot open ") + path);
    std::vector<std::vector<double>> rows;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        const auto require = [&](bool good, const std::string &what) {
            if (!good)
                throw std::invalid_argument(std::string(path) + ", line " + std::to_string(number) +
                                            ": " + what);
        };
        std::istringstream fields(line);
        std::vector<double> row;
        for (std::string field; fields >> field;) {
            char *end;
            row.push_back(std::strtod(field.c_str(), &end));
            require(*end == '\0' && std::isfinite(row.back()), field + " is not a finite number");
        }
        if (row.empty())
            continue;
        require(row.size() >= 2, "expected coordinates and a label");
        require(rows.empty() || row.size() == rows[0].size(),
                "expected as many values as on the lines before");
        require(std::abs(row.back()) < 1e15 && row.back() == std::trunc(row.back()),
                "the last value, the label, is not an integer");
        rows.push_back(row);
    }
    if (rows.empty())
        throw std::invalid_argument(std::string(path) + " holds no points");
    Data data{RowMatrix<double>(rows.size(), rows[0].size() - 1), {}};
    for (std::size_t i = 0; i < rows.size(); ++i) {
        data.labels.push_back(static_cast<std::int64_t>(rows[i].back()));
        for (std::size_t k = 0; k + 1 < rows[i].size(); ++k)
            data.points(i, k) = rows[i][k];
    }
    return data;
}

static Data make() {
    std::mt19937 random(0);
    std::normal_distribution<double> noise;
    Data data{RowMatrix<double>(400, 8), {}};
    for (Index i = 0; i < 400; ++i) {
        data.labels.push_back(i % 2);
        for (Index k = 0; k < 8; ++k)
            data.points(i, k) = 2 * noise(random);
        data.points(i, 3) = noise(random) / 3 + static_cast<double>(i % 2);
    }
    return data;
}

/// Returns the leave-one-out error of 3-NN classification under L.
static double error_of(const Data &data, const RowMatrix<double> &L) {
    const Index n = data.points.rows(), k = 3;
    const metricfast::Points x(metricfast::view(data.points));
    const metricfast::EmbeddedPair z(x, x, L, L, {});
    const metricfast::Points embedded(metricfast::view(z.database));
    const auto self = metricfast::identity_order(n);
    RowMatrix<double> distances(n, k);
    RowMatrix<std::int64_t> nearest(n, k);
    metricfast::kneighbors<double>(embedded, embedded, k, metricfast::Codes(self), false,
                                   metricfast::view(distances), metricfast::view(nearest));
    Index wrong = 0;
    for (Index i = 0; i < n; ++i) {
        Index same = 0;
        for (Index r = 0; r < k; ++r)
            same += data.labels[nearest(i, r)] == data.labels[i];
        wrong += 2 * same < k;
    }
    return static_cast<double>(wrong) / static_cast<double>(n);
}

/// Gradient ascent on the expected number of correctly classified points. The step size grows after
/// an improvement and shrinks otherwise.
static RowMatrix<double> learn(const Data &data, Index components, int steps) {
    using Loss = metricfast::NcaLoss<double>;
    const Index n = data.points.rows(), d = data.points.cols();
    const RowMatrix<double> x = data.points.rowwise() - data.points.colwise().mean();
    const auto self = metricfast::identity_order(n);
    const Loss loss(Loss::Form::sum, {data.labels, data.labels});
    RowMatrix<double> L = RowMatrix<double>::Identity(components, d), z(n, components),
                      dz(n, components);
    metricfast::RowScratch<double> scratch; // working memory of all evaluations
    const auto evaluate = [&](const RowMatrix<double> &map, RowMatrix<double> &gradient) {
        metricfast::linear_forward<double>(metricfast::view(x), metricfast::view(map),
                                           metricfast::view(z));
        metricfast::RowProblem<double> problem;
        problem.queries = problem.database = metricfast::view(std::as_const(z));
        problem.symmetric = true;
        problem.exclude = self;
        metricfast::RowEngine<double> engine(problem, loss, {}, &scratch);
        const double value = engine.value_and_gradient(metricfast::view(dz), {}).value;
        gradient.resize(components, d);
        metricfast::linear_backward<double>(metricfast::view(std::as_const(dz)),
                                            metricfast::view(x), metricfast::view(gradient));
        return value;
    };
    RowMatrix<double> gradient, next_gradient;
    double value = evaluate(L, gradient), step = 0.01;
    for (int s = 0; s < steps; ++s) {
        const RowMatrix<double> next = L - step * gradient;
        const double next_value = evaluate(next, next_gradient);
        if (next_value < value) {
            L = next, value = next_value, gradient = next_gradient, step *= 1.5;
        } else {
            step /= 2;
        }
    }
    return L;
}

int main(int argc, char **argv) {
    try {
        const Data data = argc > 1 ? read(argv[1]) : make();
        const Index d = data.points.cols();
        const RowMatrix<double> identity = RowMatrix<double>::Identity(d, d);
        std::cout << data.points.rows() << " points, " << d << " coordinates\n"
                  << "3-NN error, Euclidean: " << error_of(data, identity) << '\n';
        const RowMatrix<double> L = learn(data, std::min<Index>(d, 2), 60);
        std::cout << "3-NN error, learned:   " << error_of(data, L) << '\n' << "L =\n" << L << '\n';
    } catch (const std::exception &error) {
        std::cerr << "nca: " << error.what() << '\n';
        return 1;
    }
}
