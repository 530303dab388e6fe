#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_row_engine {

using namespace metricfast;

namespace {

constexpr Index n = 183, p = 3; // vectors of any width leave a part

std::vector<std::int64_t> labels_of(Index count) {
    std::vector<std::int64_t> labels(count);
    for (Index i = 0; i < count; ++i)
        labels[i] = i % 3;
    return labels;
}

/// A loss of inner products: half the sum of their squares.
template <class T> struct HalfSquares : RowLoss<T> {
    RowKind kind() const override { return RowKind::inner_product; }
    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        for (Index j = 0; j < row.count; ++j)
            if (std::isfinite(row.values[j]))
                result.value += 0.5 * static_cast<double>(row.values[j] * row.values[j]);
        result.terms = row.count;
        return result;
    }
};

template <class T>
RowTotals run(const RowMatrix<T> &z, const RowLoss<T> &loss, RowMatrix<T> &grad,
              RowProblem<T> problem = {}, const Control &control = {}) {
    std::vector<std::int64_t> self = identity_order(z.rows());
    problem.queries = problem.database = seen(z);
    problem.symmetric = true;
    if (loss.kind() != RowKind::inner_product)
        problem.exclude = self;
    grad.resize(z.rows(), z.cols());
    return RowEngine<T>(problem, loss, control).value_and_gradient(view(grad), {});
}

template <class T> void gradient_matches(const RowLoss<T> &loss, RowProblem<T> problem = {}) {
    RowMatrix<T> z = random_points<T>(n, p) * T(2), grad, unused;
    run(z, loss, grad, problem);
    const T step = std::is_same_v<T, double> ? T(1e-5) : T(1e-2);
    for (const Index i : {Index(0), n / 2, n - 1})
        for (Index k = 0; k < p; ++k) {
            const T x = z(i, k);
            z(i, k) = x + step;
            const double above = run(z, loss, unused, problem).value;
            z(i, k) = x - step;
            const double below = run(z, loss, unused, problem).value;
            z(i, k) = x;
            CHECK_NEAR(grad(i, k), (above - below) / (2.0 * step),
                       1e-2 * (1 + std::abs(grad(i, k))));
        }
}

} // namespace

TEST(nca_gradients) {
    const auto y = labels_of(n);
    gradient_matches<double>(NcaLoss<double>(NcaLoss<double>::Form::sum, {y, y}));
    gradient_matches<double>(NcaLoss<double>(NcaLoss<double>::Form::log, {y, y}));
    gradient_matches<float>(NcaLoss<float>(NcaLoss<float>::Form::sum, {y, y}));
}

TEST(lmnn_gradients_and_candidates) {
    const auto y = labels_of(n);
    std::vector<std::int64_t> targets;
    for (Index i = 0; i < n; ++i)
        targets.push_back((i + 3) % n);
    const LmnnLoss<double> loss({targets, 1, 0.4}, {y, y});
    gradient_matches<double>(loss);

    const RowMatrix<double> z = random_points<double>(n, p);
    std::vector<double> radius(n, 100.0);
    const auto lists = find_impostors(Points(seen(z)), y, 3, radius, n * n);
    std::vector<std::int64_t> starts{0}, columns;
    for (Index i = 0; i < n; ++i) {
        columns.push_back(targets[i]);
        columns.insert(columns.end(), lists.columns.begin() + lists.row_starts[i],
                       lists.columns.begin() + lists.row_starts[i + 1]);
        starts.push_back(static_cast<std::int64_t>(columns.size()));
    }
    RowProblem<double> listed;
    listed.candidates = {starts, columns};
    RowMatrix<double> grad, listed_grad;
    const double value = run(z, loss, grad).value;
    CHECK_NEAR(run(z, loss, listed_grad, listed).value, value, 1e-9 * value);
    CHECK((grad - listed_grad).cwiseAbs().maxCoeff() < 1e-9);
}

// Lists of far columns in any order, stripe by stripe, are whole rows of which others do not
// matter.
TEST(listed_rows_of_many_columns) {
    constexpr Index many = 3000, wide = 40;
    const RowMatrix<double> z = random_points<double>(many, wide);
    RowMatrix<double> weights = RowMatrix<double>::Zero(many, many);
    std::vector<std::int64_t> starts{0}, columns;
    std::vector<double> listed;
    for (Index i = 0; i < many; ++i) {
        for (Index e = 0; e < i % 150; ++e) {
            const Index j = (i * 7 + e * 1931) % many;
            if (j == i || weights(i, j) != 0)
                continue;
            weights(i, j) = 0.1 + static_cast<double>((i + 3 * e) % 11);
            columns.push_back(j);
            listed.push_back(weights(i, j));
        }
        starts.push_back(static_cast<std::int64_t>(columns.size()));
    }
    RowMatrix<double> grad, expected;
    RowProblem<double> problem;
    const double value = run(z, DenseWeightsLoss<double>(view(weights)), expected).value;
    problem.candidates = {starts, columns};
    for (const std::size_t budget : {std::size_t(1) << 30, std::size_t(1) << 20}) {
        problem.memory_budget = budget; // that of a few weights, and of all
        const SparseWeightsLoss<double> loss(starts, listed);
        CHECK_NEAR(run(z, loss, grad, problem).value, value, 1e-9 * std::abs(value));
        CHECK((grad - expected).cwiseAbs().maxCoeff() < 1e-9 * expected.cwiseAbs().maxCoeff());
    }
}

template <class T> void scratch_is_used_again(RowScratch<T> &scratch, Index count, Index width) {
    const auto y = labels_of(count);
    const RowMatrix<T> z = random_points<T>(count, width) * T(3);
    const std::vector<std::int64_t> self = identity_order(count);
    RowProblem<T> problem;
    problem.queries = problem.database = seen(z);
    problem.exclude = self;
    const NcaLoss<T> nca(NcaLoss<T>::Form::sum, {y, y});
    const CircleLoss<T> circle(0.25, 0.1, {y, y});
    for (const RowLoss<T> *loss :
         {static_cast<const RowLoss<T> *>(&nca), static_cast<const RowLoss<T> *>(&circle)})
        for (const bool symmetric : {true, false})
            for (const Index lanes : {Index(0), Index(1)}) {
                problem.symmetric = symmetric;
                problem.lanes = lanes;
                RowMatrix<T> grads[2], others[2];
                double values[2];
                for (int k = 0; k < 2; ++k) {
                    grads[k].resize(count, width);
                    others[k].setZero(count, width);
                    RowEngine<T> engine(problem, *loss, {2, {}, {}}, k == 0 ? nullptr : &scratch);
                    values[k] = engine.value_and_gradient(view(grads[k]), view(others[k])).value;
                }
                CHECK(values[0] == values[1] && grads[0] == grads[1] && others[0] == others[1]);
            }
}

TEST(scratch_leaves_no_trace) {
    RowScratch<double> scratch;
    RowScratch<float> single;
    for (const Index count : {2500, 300, 1700, 40}) {
        scratch_is_used_again(scratch, count, 2 + count % 7);
        scratch_is_used_again(single, count, 2 + count % 7);
    }
}

TEST(inner_products) { gradient_matches<double>(HalfSquares<double>()); }

TEST(losses_of_ranks) {
    const auto y = labels_of(n);
    gradient_matches<double>(CircleLoss<double>(0.25, 0.1, {y, y}));
    gradient_matches<double>(SoftRankLoss<double>(PrecisionForm{}, 2.0, {y, y}));
    gradient_matches<double>(SoftRankLoss<double>(RecallForm{{1, 40}, 3.0}, 2.0, {y, y}));
}

TEST(functions_of_a_row) {
    const auto squares = [](const double *values, double *derivatives, const double *labels,
                            std::ptrdiff_t count, std::ptrdiff_t, std::ptrdiff_t excluded,
                            double label, void *data) {
        double sum = 0;
        for (std::ptrdiff_t j = 0; j < count; ++j)
            if (j != excluded) {
                const double error = values[j] - *static_cast<double *>(data) * label * labels[j];
                sum += error * error;
                derivatives[j] = 2 * error;
            }
        return sum;
    };
    double factor = 0.5;
    const std::vector<double> y(n, 2.0);
    for (const RowKind kind :
         {RowKind::squared_distance, RowKind::distance, RowKind::inner_product})
        gradient_matches<double>(CompiledLoss<double>(squares, &factor, kind, y, y));
}

TEST(threads_and_memory_do_not_change_a_bit) {
    const auto y = labels_of(n);
    const NcaLoss<double> loss(NcaLoss<double>::Form::log, {y, y});
    const RowMatrix<double> z = random_points<double>(n, p);
    RowMatrix<double> one, other;
    const double value = run(z, loss, one, {}, {1, {}, {}}).value;
    for (const int threads : {2, 3, 8}) {
        CHECK(run(z, loss, other, {}, {threads, {}, {}}).value == value);
        CHECK(one == other);
    }
    RowProblem<double> tight;
    tight.memory_budget = 1 << 12;
    CHECK_NEAR(run(z, loss, other, tight).value, value, 1e-9);
}

TEST(reductions) {
    const auto y = labels_of(n);
    const NcaLoss<double> loss(NcaLoss<double>::Form::sum, {y, y});
    const RowMatrix<double> z = random_points<double>(n, p);
    RowMatrix<double> grad, mean_grad;
    RowProblem<double> mean;
    mean.reduction = Reduction::mean;
    const RowTotals sum = run(z, loss, grad);
    CHECK_NEAR(run(z, loss, mean_grad, mean).value, sum.value / n, 1e-12);
    CHECK((grad / n - mean_grad).cwiseAbs().maxCoeff() < 1e-12);
    CHECK(sum.anchors == n && sum.skipped == 0);
}

TEST(work_can_be_cancelled) {
    const auto y = labels_of(4000);
    const NcaLoss<double> loss(NcaLoss<double>::Form::log, {y, y});
    const RowMatrix<double> z = random_points<double>(4000, 20);
    RowMatrix<double> grad;
    int asked = 0;
    double shown = 0;
    const Control control{2, [&] { return ++asked < 2; }, [&](double share) { shown = share; }};
    CHECK_THROWS(Cancelled, "cancelled", [&] {
        for (int repeat = 0; repeat < 1000; ++repeat)
            run(z, loss, grad, {}, control);
    }());
    CHECK(asked == 2 && shown > 0 && shown <= 1);
}

TEST(progress_goes_forward) {
    const auto y = labels_of(6000);
    const NcaLoss<double> loss(NcaLoss<double>::Form::log, {y, y});
    const RowMatrix<double> z = random_points<double>(6000, 20);
    RowMatrix<double> grad;
    std::vector<double> shown;
    std::vector<std::int64_t> self = identity_order(6000);
    RowProblem<double> problem;
    problem.queries = problem.database = seen(z);
    problem.symmetric = true;
    problem.exclude = self;
    grad.resize(6000, 20);
    RowEngine<double>(problem, loss, {2, {}, [&](double share) { shown.push_back(share); }})
        .value_and_gradient(view(grad), {});
    CHECK(!shown.empty() && std::is_sorted(shown.begin(), shown.end()) && shown.back() <= 1);
}

TEST(the_caller_is_asked_while_others_still_work) {
    bool cancelled = false;
    const auto start = std::chrono::steady_clock::now();
    const Control control{
        2,
        [&] { return std::chrono::steady_clock::now() - start < std::chrono::milliseconds(60); },
        {}};
    try {
        parallel_blocks(
            2, control,
            [](Index, Worker &worker) {
                for (int i = 0; worker.id() != 0 && i < 100; ++i) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                    worker.advance();
                }
                // Long enough for the helper to take the other block.
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            },
            101);
    } catch (const Cancelled &) {
        cancelled = true;
    }
    CHECK(cancelled);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1500));
}

template <class T> void transposes(Index rows, Index cols) {
    const RowMatrix<T> in = random_points<T>(cols + 1, rows + 2),
                       before = random_points<T>(rows, cols);
    RowMatrix<T> out(rows, cols);
    detail::sum_with_transposed<T>(view(before), view(in).block(1, 2, cols, rows), view(out));
    CHECK(out == before + in.block(1, 2, cols, rows).transpose());
}

TEST(transposed_blocks_of_any_shape_are_added) {
    for (const auto &[rows, cols] :
         {std::pair<Index, Index>{1, 1}, {7, 40}, {16, 16}, {33, 50}, {100, 17}, {48, 3}}) {
        transposes<float>(rows, cols);
        transposes<double>(rows, cols);
    }
}

TEST(rows_are_an_odd_number_of_lines_apart) {
    for (const Index m : {1, 16, 17, 1000, 1008, 1024, 4096}) {
        const Index columns = lines_apart<float>(m);
        CHECK(columns >= m && columns < m + 32 && columns % 32 == 16);
    }
    CHECK(lines_apart<double>(16) == 24);
}

TEST(bad_arguments_are_named) {
    const auto y = labels_of(n);
    const NcaLoss<double> loss(NcaLoss<double>::Form::sum, {y, y});
    const RowMatrix<double> z = random_points<double>(n, p);
    RowMatrix<double> grad(n, p), narrow(n, p - 1);
    RowProblem<double> problem;
    problem.queries = problem.database = seen(z);
    problem.symmetric = true;
    CHECK_THROWS(std::invalid_argument, "queries' shape",
                 RowEngine<double>(problem, loss, {}).value_and_gradient(view(narrow), {}));
    const std::vector<std::int64_t> outside(n, n);
    problem.exclude = outside;
    CHECK_THROWS(std::invalid_argument, "exclude", RowEngine<double>(problem, loss, {}));
}

TEST(a_pool_does_the_work) {
    const RowMatrix<double> z = random_points<double>(400, 20);
    const auto y = labels_of(400);
    const NcaLoss<double> loss(NcaLoss<double>::Form::sum, {y, y});
    RowMatrix<double> alone, pooled;
    run(z, loss, alone, {}, {1, {}, {}});
    Control control{3, {}, {}};
    int tasks = 0;
    control.executor = [&](const std::function<void()> &) { ++tasks; }; // which never begin
    run(z, loss, pooled, {}, control);
    CHECK(tasks == 4 && pooled == alone); // two for the rows, two for the gradient
}

} // namespace test_row_engine
