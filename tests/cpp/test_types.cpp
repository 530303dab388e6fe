// What callers hand over: views of their matrices, spans of labels and weights, nothing at all.
#include <limits>
#include <type_traits>
#include <utility>

#include "check.hpp"
#include "metricfast/metricfast.hpp"
#include "points.hpp"

namespace test_types {

using namespace metricfast;

namespace {

template <class M, class = void> constexpr bool viewable = false;
template <class M>
constexpr bool viewable<M, std::void_t<decltype(view(std::declval<M>()))>> = true;

using Matrix = RowMatrix<double>;
static_assert(std::is_same_v<decltype(view(std::declval<Matrix &>())), View<double>>);
static_assert(std::is_same_v<decltype(view(std::declval<const Matrix &>())), View<const double>>);
// Temporaries dangle.
static_assert(!viewable<Matrix> && !viewable<const Matrix>);
static_assert(!viewable<Eigen::Map<Matrix>> && !viewable<Eigen::Block<Matrix>>);
static_assert(!std::is_constructible_v<Codes, std::vector<std::int64_t>>);
// Where nobody knows how many values there are, they are no span.
static_assert(!std::is_constructible_v<Codes, const std::int64_t *>);

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Matrix distances_of(const Points &points) {
    Matrix out(points.rows(), points.rows());
    pairwise_distances<double>(points, points, true, view(out));
    return out;
}

const Control one_thread{1, {}, {}};

} // namespace

TEST(matrices_of_every_kind_are_seen) {
    Matrix wide = random_points<double>(5, 7);
    const Matrix narrow = wide.middleCols(2, 3), expected = distances_of(view(narrow));
    auto block = wide.middleCols(2, 3);
    Eigen::Map<const Matrix> map(narrow.data(), 5, 3);
    const Eigen::Map<Matrix, 0, Eigen::OuterStride<>> spaced(wide.data() + 2, 5, 3,
                                                             Eigen::OuterStride<>(7));
    Eigen::Matrix<double, 5, 3, Eigen::RowMajor> fixed = narrow;
    CHECK(distances_of(view(block)) == expected);
    CHECK(distances_of(view(map)) == expected);
    CHECK(distances_of(view(spaced)) == expected);
    CHECK(distances_of(view(fixed)) == expected);

    Eigen::VectorXd column(3);
    column << 0, 3, 7;
    auto every_other = wide.col(0);
    CHECK(distances_of(view(column))(0, 2) == 49);
    CHECK(view(every_other).row(4)[0] == wide(4, 0));
    Eigen::RowVectorXd row = wide.row(1);
    CHECK(view(row).rows == 1 && view(row).cols == 7);

    const std::vector<double> values{0, 3, 7};
    CHECK(distances_of(view(values, 3, 1))(0, 2) == 49);
    CHECK_THROWS(std::invalid_argument, "3 values, not 2 x 1", view(values, 2, 1));
}

TEST(points_may_be_none) {
    const Matrix none(0, 3), some = random_points<double>(4, 3), L = random_points<double>(2, 3);
    const RowMatrix<float> none_single(0, 3);
    for (const Points &empty : {Points(view(none)), Points(view(none_single))}) {
        CHECK(empty.rows() == 0 && empty.cols() == 3);
        for (const Points &other : {empty, Points(view(some))}) {
            const EmbeddedPair queries(empty, other, L, L, {}), database(other, empty, L, L, {});
            CHECK(queries.queries.rows() == 0 && queries.queries.cols() == 2);
            CHECK(queries.database.rows() == other.rows());
            CHECK(database.queries.rows() == other.rows() && database.queries.allFinite());
            CHECK(database.database.rows() == 0 && database.database.cols() == 2);
            Matrix out(0, other.rows()), across(other.rows(), 0);
            pairwise_distances<double>(empty, other, true, view(out));
            pairwise_distances<double>(other, empty, true, view(across));
        }
        Matrix distances(0, 2);
        RowMatrix<std::int64_t> indices(0, 2);
        kneighbors<double>(empty, view(some), 2, nullptr, true, view(distances), view(indices));
        paired_distances<double>(empty, empty, {}, true, nullptr);
        CHECK_THROWS(
            std::invalid_argument, "exceeds the number",
            kneighbors<double>(empty, empty, 2, nullptr, true, view(distances), view(indices)));
    }
}

TEST(short_arrays_are_refused) {
    const Matrix x = random_points<double>(6, 2);
    const Points points(view(x));
    const std::vector<std::int64_t> y{0, 1, 0, 1, 0, 1}, few{0, 1, 0};
    const std::vector<double> weights(6, 1.0), light(5, 1.0);
    Matrix distances(6, 2), gradient(6, 2);
    RowMatrix<std::int64_t> indices(6, 2);
    std::vector<double> d(6 * 2 * 2);
    std::vector<std::int64_t> rows(6 * 2 * 2);
    const char *const a_label = "one label";
    CHECK_THROWS(std::invalid_argument, "one entry per query",
                 kneighbors<double>(points, points, 2, few, true, view(distances), view(indices)));
    CHECK_THROWS(std::invalid_argument, a_label,
                 kneighbors_per_class<double>(points, points, few, 2, 2, nullptr, true, d, rows));
    CHECK_THROWS(std::invalid_argument, a_label, find_impostors(points, few, 2, weights, 36));
    CHECK_THROWS(std::invalid_argument, "one radius", find_impostors(points, y, 2, light, 36));
    CHECK_THROWS(std::invalid_argument, "one weight", local_scatter(view(x), light, 1));

    InferenceProblem inference;
    inference.options.loss.classes = 2;
    inference.query_labels = y;
    inference.database_labels = few;
    CHECK_THROWS(std::invalid_argument, a_label, InferenceSearch(points, points, inference));

    RowProblem<double> problem;
    problem.queries = problem.database = view(x);
    problem.symmetric = true;
    const auto run = [&](const RowLoss<double> &loss) {
        return RowEngine<double>(problem, loss, {}).value_and_gradient(view(gradient), {});
    };
    using Nca = NcaLoss<double>;
    using SupCon = TwoSidedLoss<double>;
    const SupConForm form(0.1);
    const std::vector<std::int64_t> outside{0, 1, 2, 3, 4, 6};
    std::vector<double> slopes(6);
    const Nca nca(Nca::Form::sum, {y, y}, weights);
    const char *const a_weight = "weight for each database point";
    run(nca);
    CHECK_THROWS(std::invalid_argument, a_label, run(Nca(Nca::Form::sum, {few, y})));
    CHECK_THROWS(std::invalid_argument, a_weight, run(Nca(Nca::Form::sum, {y, y}, light)));
    CHECK_THROWS(std::invalid_argument, a_label, run(TripletLoss<double>({}, {y, few})));
    CHECK_THROWS(std::invalid_argument, a_label, run(NtxentLoss<double>(0.1, {y, few})));
    CHECK_THROWS(std::invalid_argument, a_label, run(ContrastiveLoss<double>({}, {few, y})));
    CHECK_THROWS(std::invalid_argument, a_weight,
                 run(SupCon(form, RowKind::inner_product, {y, y}, light)));
    CHECK_THROWS(std::invalid_argument, a_label, run(McmlLoss<double>({few, y})));
    CHECK_THROWS(std::invalid_argument, a_label, run(MlkrLoss<double>({light, weights})));
    CHECK_THROWS(std::invalid_argument, a_weight, run(LdmlLoss<double>(1, slopes, {y, y}, light)));
    CHECK_THROWS(std::invalid_argument, "k targets", run(LmnnLoss<double>({few, 1}, {y, y})));
    CHECK_THROWS(std::invalid_argument, a_label, run(LmnnLoss<double>({y, 1}, {y, few})));
    problem.weights = light;
    CHECK_THROWS(std::invalid_argument, "weights must have one entry per query", run(nca));
    problem.weights = nullptr;
    problem.exclude = outside;
    CHECK_THROWS(std::invalid_argument, "exclude holds an index outside", run(nca));
    problem.exclude = few;
    CHECK_THROWS(std::invalid_argument, "one entry per query", run(nca));
}

TEST(a_symmetric_problem_has_one_set_of_points) {
    const Matrix x = random_points<double>(6, 2), copy = x;
    const std::vector<std::int64_t> y{0, 1, 0, 1, 0, 1};
    const NcaLoss<double> loss(NcaLoss<double>::Form::sum, {y, y});
    RowProblem<double> problem;
    problem.queries = view(x);
    problem.database = view(copy);
    problem.symmetric = true;
    CHECK_THROWS(std::invalid_argument, "one set of points", RowEngine<double>(problem, loss, {}));
}

TEST(nan_is_reported) {
    Matrix x = random_points<double>(300, 3);
    x(280, 1) = not_a_number;
    const Points points(view(x));
    const Matrix L = random_points<double>(3, 3), M = Matrix::Identity(3, 3);
    const std::vector<std::int64_t> pair{0, 280}, triplet{0, 1, 280}, order{0}, y(300, 0);
    const std::vector<double> ones(300, 1.0);
    std::vector<double> out(1);
    Matrix all(300, 300), distances(300, 1), W = M;
    RowMatrix<std::int64_t> indices(300, 1);
    const char *const finite = "must be finite";
    const auto refuses = [&](auto &&call) { CHECK_THROWS(std::invalid_argument, finite, call()); };
    refuses([&] { pairwise_distances<double>(points, points, true, view(all)); });
    refuses([&] { paired_distances<double>(points, points, {pair, 1}, true, out); });
    refuses([&] {
        kneighbors<double>(points, points, 1, nullptr, true, view(distances), view(indices));
    });
    refuses([&] { find_impostors(points, y, 1, ones, 300); });
    refuses([&] { local_scatter(view(x), ones, 1); });
    refuses([&] { group_scatter(points, ones, y, view(M), nullptr); });
    refuses([&] { group_sums(points, ones, y, view(W)); });
    refuses([&] { triplet_objective(points, view(L), triplet, nullptr, 0.0); });
    refuses([&] { sum_of_distances(points, {pair, 2}, view(L), false); });
    refuses([&] { Scml<double>(view(x), triplet, view(L), {1, 1, 1}); });
    refuses([&] { Itml({points, pair, 1}, {1, 2, 1}, view(M)); });
    const auto learn = [&](double C) {
        oasis<double>(view(x), triplet, nullptr, order, C, view(W));
    };
    refuses([&] { learn(1); });
    RowProblem<double> problem;
    problem.queries = problem.database = view(x);
    problem.symmetric = true;
    const DenseWeightsLoss<double> loss(view(all));
    refuses([&] { RowEngine<double>(problem, loss, {}); });
    InferenceProblem inference;
    inference.query_labels = inference.database_labels = y;
    inference.options.loss.classes = 1;
    refuses([&] { InferenceSearch(points, points, inference); });
    all(3, 4) = not_a_number;
    CHECK_THROWS(std::invalid_argument, "must not be NaN",
                 infer_from_distances<double>(view(all), inference));

    x(280, 1) = 0;
    CHECK_THROWS(std::invalid_argument, "C must be positive", learn(not_a_number));
    W(1, 2) = not_a_number;
    refuses([&] { learn(1); });
    refuses([&] { Itml({points, pair, 1}, {1, 2, 1}, view(W)); });
}

TEST(nan_stays_in_its_row) {
    Matrix x = random_points<double>(300, 3), z(300, 3);
    const Matrix L = random_points<double>(3, 3);
    x(280, 1) = not_a_number;
    const auto in_its_row = [](const Matrix &m) {
        for (Index i = 0; i < m.rows(); ++i)
            CHECK(m.row(i).allFinite() == (i != 280));
    };
    linear_forward<double>(view(x), view(L), view(z), one_thread);
    in_its_row(z);
    CHECK_THROWS(std::invalid_argument, "no form in place",
                 linear_forward<double>(view(x), view(L), view(x)));
    layers_forward<double>(view(x), {{view(L), nullptr}}, Activation::relu, {view(z)});
    in_its_row(z);
    in_its_row(embed(view(x), L, {0, 0, 0}, {}));
    std::vector<double> lengths(300);
    normalize_forward<double>(view(x), lengths);
    in_its_row(x);
}

} // namespace test_types
