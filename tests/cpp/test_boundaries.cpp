/// Arguments at their edges: temporaries, lengths, rows that are none, labels that are large.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.hpp"
#include "points.hpp"

#include "metricfast/metricfast.hpp"

namespace test_boundaries {

using namespace metricfast;
using bad = std::invalid_argument;
using Ids = std::vector<std::int64_t>;
using Matrix = RowMatrix<double>;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

/// Reuses the stack, so that what refers to a temporary reads something else.
METRICFAST_NOINLINE void overwrite_stack() {
    volatile char used[4096];
    std::fill(used, used + sizeof used, char(1));
}

/// Views convert to points that are gone when the constructor returns.
template <class Kept, class... Arguments> std::unique_ptr<Kept> made(const Arguments &...given) {
    auto kept = std::make_unique<Kept>(given...);
    overwrite_stack();
    return kept;
}

} // namespace

TEST(points_may_be_temporaries) {
    const Matrix x = random_points<double>(40, 3);
    const View<const double> points = view(x);
    const Control alone{1, {}, {}};

    const auto pairs = made<AllPairs<double>>(points, points, alone);
    Matrix out(40, 40), expected(40, 40);
    pairs->fill(0, view(out), true);
    pairwise_distances<double>(points, points, true, view(expected));
    CHECK(out == expected);

    Ids labels(40), found(40 * 3), rows(40 * 3);
    for (Index i = 0; i < 40; ++i)
        labels[i] = i % 3;
    InferenceProblem problem;
    problem.query_labels = problem.database_labels = labels;
    problem.options.k = 3;
    problem.options.loss.classes = 3;
    problem.targeted.indices = found;
    const auto inference = made<InferenceSearch>(points, points, problem);
    problem = {};
    inference->run(alone);
    CHECK(std::all_of(found.begin(), found.end(), [](auto row) { return row >= 0 && row < 40; }));

    const Space space(points);
    const Queries queries(points);
    const PreparedDatabase prepared(space, frame_of(points, points), {identity_order(40), {0}},
                                    false, alone);
    const auto search = made<SegmentSearch>(prepared, queries, 3, nullptr);
    SearchMemory memory;
    const auto emit = [&](Index i, Index, const std::vector<Neighbor> &near) {
        for (Index r = 0; r < 3; ++r)
            rows[3 * i + r] = near[r].index;
    };
    search->run(alone, memory, emit);
    Matrix distances(40, 3);
    RowMatrix<std::int64_t> indices(40, 3);
    kneighbors<double>(points, points, 3, nullptr, true, view(distances), view(indices));
    CHECK(std::equal(rows.begin(), rows.end(), indices.data()));

    const auto rough = made<RoughDistances>(queries, space, 1.0);
    CHECK_NEAR((*rough)(0, 1), expected(0, 1), 1e-9);

    const auto window = made<WindowSearch>(points, points, Codes(), 1e9, alone);
    WindowLists lists;
    CHECK(window->find(0, 2, 1000, lists) && lists.columns.size() == 80);

    const auto votes = made<VoteStream<double>>(points, points, points, Weights(), Codes(), alone);
    Matrix means(40, 3), given(40, 3);
    for (Index first = 0; first < 40; first += VoteStream<double>::block)
        votes->run(first,
                   view(means).middle_rows(first, std::min(VoteStream<double>::block, 40 - first)));
    soft_votes<double>(points, points, points, nullptr, nullptr, view(given));
    CHECK(means == given);

    const auto radius = made<detail::RadiusProblem>(prepared, queries, RadiusSettings{100.0});
    CHECK(detail::within_radius(*radius, alone)[39].size() == 40);
}

// A database refers to its model, which may not be a temporary.
static_assert(std::is_constructible_v<ModelDatabase, Model &, Points>);
static_assert(!std::is_constructible_v<ModelDatabase, Model, Points>);

TEST(soft_votes_beside_a_point_that_is_far_away) {
    const Matrix queries{{0.0}}, database{{0.0}, {3.0}, {1e200}}, values{{0.0}, {1.0}, {0.0}};
    const double share = std::exp(-3.0) / (1 + std::exp(-3.0));
    Matrix out(1, 1);
    soft_votes<double>(view(queries), view(database), view(values), nullptr, nullptr, view(out));
    CHECK_NEAR(out(0, 0), share, 1e-6);
    const RowMatrix<float> single = values.cast<float>();
    soft_votes<float>(view(queries), view(database), view(single), nullptr, nullptr, view(out));
    CHECK_NEAR(out(0, 0), share, 1e-4);
    const Matrix tiny = database.array() * 1e-300, all{{1e308}, {-1e308}, {1e308}};
    soft_votes<double>(view(queries), view(tiny), view(values), nullptr, nullptr, view(out));
    CHECK_NEAR(out(0, 0), 1 / 3.0, 1e-6);
    soft_votes<double>(view(all), view(all), view(values), nullptr, nullptr,
                       view(static_cast<Matrix &>(out = Matrix(3, 1))));
    CHECK(out(0, 0) < 1e-300 && out(1, 0) == 1 && out(2, 0) < 1e-300);
}

TEST(rows_that_are_none_are_not_left_out) {
    const Matrix x = random_points<double>(6, 2);
    const View<const double> points = view(x);
    Matrix distances(6, 2), means(6, 2), gradient(6, 2);
    RowMatrix<std::int64_t> indices(6, 2);
    Ids labels(6, 0);
    std::vector<double> d(6);
    Ids rows(6);
    for (const std::int64_t wrong : {std::int64_t(6), std::int64_t(-2), least}) {
        Ids exclude(6, -1);
        exclude[4] = wrong;
        const auto refuses = [&](auto &&call) { CHECK_THROWS(bad, "exclude holds", call()); };
        refuses([&] {
            kneighbors<double>(points, points, 2, exclude, true, view(distances), view(indices));
        });
        refuses([&] {
            kneighbors_per_class<double>(points, points, labels, 1, 1, exclude, true, d, rows);
        });
        refuses([&] { radius_neighbors<double>(points, points, {1, exclude}); });
        refuses([&] { soft_votes<double>(points, points, points, nullptr, exclude, view(means)); });
        InferenceProblem problem;
        problem.query_labels = problem.database_labels = labels;
        problem.options.loss.classes = 1;
        problem.exclude = exclude;
        refuses([&] { InferenceSearch(points, points, problem); });
        RowProblem<double> rows_of;
        rows_of.queries = rows_of.database = points;
        rows_of.symmetric = true;
        rows_of.exclude = exclude;
        const NcaLoss<double> loss(NcaLoss<double>::Form::log, {labels, labels});
        refuses([&] { RowEngine<double>(rows_of, loss, {}); });
    }
    const Database tree(view(static_cast<const Matrix &>(x)));
    DatabaseMemory memory;
    const Ids outside(6, 6);
    CHECK_THROWS(bad, "exclude holds",
                 tree.search(points, 2, outside, true, view(distances), view(indices), memory));
}

TEST(a_filter_of_no_queries) {
    const Matrix x = random_points<double>(6, 2), none(0, 2);
    const Ids labels(6, 1), of_none;
    Filter filter;
    filter.labels = labels;
    filter.query_labels = of_none;
    filter.exclude = of_none;
    Matrix distances(0, 2);
    RowMatrix<std::int64_t> indices(0, 2);
    kneighbors<double>(view(none), view(x), 2, filter, true, view(distances), view(indices));
    std::vector<double> d;
    Ids rows;
    kneighbors_per_class<double>(view(none), view(x), labels, 2, 3, nullptr, true, d, rows);
    Matrix some(6, 2);
    RowMatrix<std::int64_t> places(6, 2);
    CHECK_THROWS(bad, "labels must have",
                 kneighbors<double>(view(x), view(x), 2, filter, true, view(some), view(places)));
}

TEST(no_points_have_no_scatter) {
    const Matrix none(0, 3);
    const std::vector<double> weights;
    CHECK(local_scatter(view(none), weights, 2) == Matrix::Zero(3, 3));
}

TEST(the_local_scatter_of_few_points_with_many_features) {
    for (const Index n : {1, 2, 30}) {
        const Matrix x = random_points<double>(n, 70);
        std::vector<double> weights(static_cast<std::size_t>(n));
        for (Index i = 0; i < n; ++i)
            weights[i] = 1 + static_cast<double>(i % 3);
        Eigen::VectorXd scale = Eigen::VectorXd::Zero(n);
        for (Index i = 0; i < n; ++i) { // of the second neighbour, copies included
            std::vector<double> all(static_cast<std::size_t>(weights[i]) - 1, 0.0);
            for (Index j = 0; j < n; ++j)
                for (int copy = 0; j != i && copy < static_cast<int>(weights[j]); ++copy)
                    all.push_back((x.row(i) - x.row(j)).norm());
            std::sort(all.begin(), all.end());
            if (!all.empty())
                scale[i] = all[std::min<std::size_t>(1, all.size() - 1)];
        }
        Matrix expected = Matrix::Zero(70, 70);
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < i; ++j) {
                if (!(scale[i] > 0 && scale[j] > 0))
                    continue;
                const auto v = x.row(i) - x.row(j);
                const double affinity = std::exp(-v.squaredNorm() / (scale[i] * scale[j]));
                expected += weights[i] * weights[j] * affinity * v.transpose() * v;
            }
        const Matrix found = local_scatter(view(x), weights, 2, {1, {}, {}});
        CHECK_NEAR((found - expected).cwiseAbs().maxCoeff(), 0, 1e-10);
        CHECK(found == Matrix(found.transpose()));
        CHECK(found == local_scatter(view(x), weights, 2, {3, {}, {}}));
    }
}

TEST(a_view_of_more_values_than_numbers_count) {
    std::vector<double> values(4);
    const Index huge = Index(1) << 33;
    CHECK_THROWS(bad, "there are 4 values", view(values, huge, huge));
    CHECK_THROWS(bad, "there are 4 values", view(values, -2, -2));
    CHECK(view(values, 2, 2).rows == 2);
    std::vector<double> none;
    CHECK(view(none, 0, huge).cols == huge);
}

TEST(a_span_of_null_has_no_values) {
    const std::int64_t *const none = nullptr;
    const Codes codes(none, 4);
    CHECK(codes == nullptr && codes.size() == 0 && codes.begin() == codes.end());
    const Matrix x = random_points<double>(4, 2);
    Matrix distances(4, 2);
    RowMatrix<std::int64_t> indices(4, 2);
    kneighbors<double>(view(x), view(x), 2, codes, true, view(distances), view(indices));
}

TEST(outputs_of_inference_that_are_not_wanted) {
    const Matrix x = random_points<double>(8, 2);
    const Points points(view(x));
    const Ids labels{0, 0, 1, 1, 0, 1, 0, 1}, self{0, 1, 2, 3, 4, 5, 6, 7};
    InferenceProblem problem;
    problem.query_labels = problem.database_labels = labels;
    problem.exclude = self;
    problem.options.k = 3;
    problem.options.loss.classes = 2;
    std::vector<double> values(8), alone(8), deltas(8);
    Ids rows(8 * 3);
    std::vector<std::uint8_t> feasible(8);
    problem.targeted = {rows, values, deltas, feasible};
    InferenceSearch(points, points, problem).run({});
    problem.targeted = {nullptr, alone, nullptr, nullptr};
    InferenceSearch(points, points, problem).run({});
    CHECK(values == alone);
    problem.targeted = {rows, nullptr, nullptr, nullptr};
    InferenceSearch(points, points, problem).run({});

    std::vector<double> few(7), costs{0, 1, 1};
    problem.targeted = {nullptr, few, nullptr, nullptr};
    CHECK_THROWS(bad, "one value per query", InferenceSearch(points, points, problem));
    problem.targeted = {{rows.data(), 8}, nullptr, nullptr, nullptr};
    CHECK_THROWS(bad, "(n_queries, n_neighbors)", InferenceSearch(points, points, problem));
    problem.targeted = {};
    problem.plain = few;
    CHECK_THROWS(bad, "plain must have", InferenceSearch(points, points, problem));
    problem.plain = nullptr;
    problem.options.loss.matrix = costs;
    CHECK_THROWS(bad, "loss matrix must be", InferenceSearch(points, points, problem));
    problem.options.loss = {nullptr, Index(1) << 40};
    CHECK_THROWS(bad, "classes must be", InferenceSearch(points, points, problem));

    // Fewer points than a set has members: no vote is right.
    std::vector<std::uint8_t> wrong(8);
    problem.options.loss = {nullptr, 2};
    problem.options.k = 8;
    problem.wrong = wrong;
    InferenceSearch(points, points, problem).run({});
    CHECK(wrong == std::vector<std::uint8_t>(8, 1));
}

TEST(candidates_of_sparse_weights) {
    const Matrix x = random_points<double>(4, 2);
    const Ids starts{0, 1, 2, 3, 4}, other{0, 2, 2, 3, 4}, columns{1, 2, 3, 0};
    const std::vector<double> weights{1, 2, 3, 4};
    const SparseWeightsLoss<double> loss(starts, weights);
    RowProblem<double> problem;
    problem.queries = problem.database = view(x);
    problem.symmetric = true;
    Matrix gradient(4, 2);
    CHECK_THROWS(bad, "candidate lists", RowEngine<double>(problem, loss, {}));
    problem.candidates = {other, columns};
    CHECK_THROWS(bad, "candidate lists", RowEngine<double>(problem, loss, {}));
    problem.candidates = {starts, columns};
    RowEngine<double>(problem, loss, {}).value_and_gradient(view(gradient), {});
}

TEST(pairs_of_the_contrastive_loss_are_of_the_problem) {
    const Matrix x = random_points<double>(6, 2);
    const Ids y{0, 1, 0, 1, 0, 1}, few{0, 1}, outside{0, 1, 2, 3, 4, 6}, self{0, 1, 2, 3, 4, 5};
    const std::vector<double> light{1, 1};
    const auto refuses = [&](const char *part, const Ids &labels, Codes exclude, Weights weights) {
        RowProblem<double> problem;
        problem.queries = problem.database = view(x);
        problem.symmetric = true;
        problem.exclude = exclude;
        problem.weights = weights;
        const ContrastiveLoss<double> loss({}, {labels, labels});
        CHECK_THROWS(bad, part, loss.all_pairs(problem));
        CHECK_THROWS(bad, part, loss.active_pairs(problem, {}));
    };
    refuses("one label", few, self, nullptr);
    refuses("exclude holds", y, outside, nullptr);
    refuses("one entry per query", y, few, nullptr);
    refuses("weights must have", y, self, light);
    const Ids starts{0, 1, 2, 3, 4, 5, 6}, members{0, 3, 6}, rows{0, 2, 4, 1, 3, 5};
    const Tags tags(starts, y, members, rows, 6);
    RowProblem<double> problem;
    problem.queries = problem.database = view(x);
    const ContrastiveLoss<double> of_few({}, {y, few});
    CHECK_THROWS(bad, "one label", of_few.all_pairs(problem));
    CHECK_THROWS(bad, "one label", of_few.active_pairs(problem, {}));
    problem.exclude = outside;
    for (const bool active : {false, true})
        CHECK_THROWS(bad, "exclude holds",
                     contrastive_pairs<double>(tags, {}, active, problem, Control{}));
}

TEST(ids_are_labels) {
    const RowMatrix<float> x = random_points<float>(9, 2);
    const Ids codes{0, 1, 2, 0, 1, 2, 0, 1, 2};
    Ids ids;
    for (const std::int64_t code : codes)
        ids.push_back(std::int64_t(1'000'000'000'000) + code);
    RowProblem<float> problem;
    problem.queries = problem.database = view(x);
    problem.symmetric = true;
    const Ids self{0, 1, 2, 3, 4, 5, 6, 7, 8};
    problem.exclude = self;
    const auto run = [&](const RowLoss<float> &loss) {
        RowMatrix<float> gradient(9, 2);
        RowEngine<float>(problem, loss, {}).value_and_gradient(view(gradient), {});
        return gradient;
    };
    using Nca = NcaLoss<float>;
    std::vector<double> slopes(9);
    const ClassLabels large{ids, ids}, small{codes, codes};
    CHECK(run(Nca(Nca::Form::log, large)) == run(Nca(Nca::Form::log, small)));
    CHECK(run(McmlLoss<float>(large)) == run(McmlLoss<float>(small)));
    CHECK(run(LdmlLoss<float>(1, slopes, large)) == run(LdmlLoss<float>(1, slopes, small)));
    CHECK(run(TripletLoss<float>({}, large)) == run(TripletLoss<float>({}, small)));
    CHECK(run(ContrastiveLoss<float>({}, large)) == run(ContrastiveLoss<float>({}, small)));
    CHECK(run(NtxentLoss<float>(1, large)) == run(NtxentLoss<float>(1, small)));
    using Supcon = TwoSidedLoss<float>;
    CHECK(run(Supcon(SupConForm(1), RowKind::inner_product, large)) ==
          run(Supcon(SupConForm(1), RowKind::inner_product, small)));
    CHECK(run(CircleLoss<float>(0.2, 2, large)) == run(CircleLoss<float>(0.2, 2, small)));
    CHECK(run(SoftRankLoss<float>(PrecisionForm{}, 1, large)) ==
          run(SoftRankLoss<float>(PrecisionForm{}, 1, small)));
    const Ids negative(9, -1);
    CHECK_THROWS(bad, "must not be negative", Nca(Nca::Form::log, {codes, negative}));
    CHECK_THROWS(bad, "must not be negative", TripletLoss<float>({}, {negative, codes}));
}

TEST(lengths_of_vectors) {
    const Matrix x = random_points<double>(4, 2);
    std::vector<double> few(3), four(4), two(2);
    Matrix z = x, gradient = x;
    CHECK_THROWS(bad, "one length per row", normalize_forward<double>(view(z), few));
    CHECK_THROWS(bad, "one length per row",
                 normalize_backward<double>(view(x), few, view(gradient)));
    CHECK_THROWS(bad, "differ in size", adam_step<double>(four, four, four, few, four, {1}));
    CHECK_THROWS(bad, "differ in size", momentum_step<double>(four, few, four, four, 1, 0, 1));
    const Points points(view(x));
    CHECK_THROWS(bad, "one value per pair",
                 paired_distances<double>(points, points, {{}, 4}, true, few));
    const Ids three{0, 1, 2};
    CHECK_THROWS(bad, "(count, 2)",
                 paired_distances<double>(points, points, {three, 1}, true, two));
    Matrix W = Matrix::Identity(2, 2);
    CHECK_THROWS(bad, "(count, 3)",
                 oasis<double>(view(x), {three.data(), 2}, nullptr, {}, 1, view(W)));
    Itml itml({points, {three.data(), 2}, 1}, {1, 2, 1}, view(W));
    CHECK_THROWS(bad, "one dual per pair", itml.sweep(two, {}));
    CHECK_THROWS(bad, "the shape of M", itml.read(view(z)));
    const Matrix weight = random_points<double>(3, 2);
    Matrix out(4, 3);
    CHECK_THROWS(
        bad, "bias",
        layers_forward<double>(view(x), {{view(weight), two}}, Activation::relu, {view(out)}));
}

TEST(losses_of_tags_are_checked) {
    const Matrix x = random_points<double>(3, 2);
    const Ids starts{0, 1, 2, 3}, tags{0, 1, 0}, members{0, 2, 3}, rows{0, 2, 1};
    const Tags given(starts, tags, members, rows, 3);
    RowProblem<double> problem;
    problem.queries = problem.database = view(x);
    problem.symmetric = true;
    Matrix gradient(3, 2);
    const auto run = [&](TagLoss<double>::Make make) {
        const TagLoss<double> loss(given, std::move(make));
        RowEngine<double>(problem, loss, {}).value_and_gradient(view(gradient), {});
    };
    using Nca = NcaLoss<double>;
    const Ids few{0};
    CHECK_THROWS(bad, "one label", run([&](ClassLabels) {
                     return std::make_unique<Nca>(Nca::Form::log, ClassLabels{few, few});
                 }));
    int calls = 0; // only the first loss is right
    CHECK_THROWS(bad, "one label", run([&](ClassLabels labels) {
                     return std::make_unique<Nca>(Nca::Form::log,
                                                  calls++ == 0 ? labels : ClassLabels{few, few});
                 }));
    CHECK_THROWS(bad, "no loss", run([](ClassLabels) { return nullptr; }));
    struct Other : Loss<double> {};
    CHECK_THROWS(bad, "of this library",
                 run([](ClassLabels) { return std::make_unique<Other>(); }));
    run([](ClassLabels labels) { return std::make_unique<Nca>(Nca::Form::log, labels); });
}

TEST(scores_that_are_no_numbers) {
    constexpr double infinity = std::numeric_limits<double>::infinity(),
                     nan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> similarities{0.1, 0.5, 0.3};
    std::vector<double> weights(3), expected(3);
    std::int64_t terms = 1;
    const auto run = [&](std::vector<double> scores, double rounding, std::vector<double> &out) {
        return cosent(similarities.data(), scores.data(), 3, 20, out.data(), &terms, rounding);
    };
    CHECK(std::isnan(run({1, nan, 2}, 0, weights)) && terms == 0);
    CHECK(std::isnan(weights[0]) && std::isnan(weights[2]));
    CHECK(run({-infinity, 1, 2}, 0, weights) == run({0, 1, 2}, 0, expected));
    CHECK(weights == expected);
    CHECK(run({-infinity, -infinity, infinity}, 0, weights) == run({0, 0, 1}, 0, expected));
    CHECK(weights == expected && terms == 2);
    CHECK(run({1, 2, 3}, infinity, weights) == 0 && terms == 0);
    for (const double wrong : {nan, -1.0})
        CHECK_THROWS(bad, "rounding", run({1, 2, 3}, wrong, weights));
}

TEST(an_empty_database) {
    const RowMatrix<double> x = random_points<double>(3, 2), none(0, 2), no_labels(0, 1);
    const Ids three{0, 1, 0}, empty;
    const ClassLabels labels{three, empty};
    const Matrix y = x.leftCols(1);
    const LabelDistances distances(LabelMetric::euclidean, view(y), view(no_labels));
    std::vector<double> slopes(3);
    std::vector<std::unique_ptr<RowLoss<double>>> losses;
    losses.emplace_back(new NcaLoss<double>(NcaLoss<double>::Form::log, labels));
    losses.emplace_back(new NcaLoss<double>(NcaLoss<double>::Form::sum, labels));
    losses.emplace_back(new McmlLoss<double>(labels));
    losses.emplace_back(new LdmlLoss<double>(1, slopes, labels));
    losses.emplace_back(new TripletLoss<double>({}, labels));
    losses.emplace_back(new ContrastiveLoss<double>({}, labels));
    losses.emplace_back(new NtxentLoss<double>(1, labels));
    losses.emplace_back(new TwoSidedLoss<double>(SupConForm(1), RowKind::inner_product, labels));
    losses.emplace_back(
        new TwoSidedLoss<double>(LiftedForm(0, 1), RowKind::squared_distance, labels));
    losses.emplace_back(new CircleLoss<double>(0.2, 2, labels));
    losses.emplace_back(new SoftRankLoss<double>(PrecisionForm{}, 1, labels));
    losses.emplace_back(new LmnnLoss<double>({empty, 0}, labels));
    losses.emplace_back(new MlkrLoss<double>(view(y), view(no_labels), nullptr, true));
    losses.emplace_back(new LogRatioLoss<double>({}, distances));
    losses.emplace_back(new PlainRatioLoss<double>({}, distances));
    losses.emplace_back(new BoundedRatioLoss<double>({}, distances));
    losses.emplace_back(new DenseTripletLoss<double>({}, distances));
    losses.emplace_back(new RankNContrastLoss<double>(1, distances));
    RowProblem<double> problem;
    problem.queries = view(x);
    problem.database = view(none);
    for (const auto &loss : losses) {
        Matrix gradient = Matrix::Constant(3, 2, 1), of_none(0, 2);
        const RowTotals totals =
            RowEngine<double>(problem, *loss, {}).value_and_gradient(view(gradient), view(of_none));
        CHECK(totals.value == 0 && gradient.isZero());
    }
}

TEST(memory_grows_with_the_classes_that_occur) {
    const Matrix x = random_points<double>(60, 20);
    const Points points(view(x));
    constexpr std::int64_t huge = std::numeric_limits<std::int32_t>::max() - 1;
    Ids small, large;
    for (Index i = 0; i < 60; ++i) {
        small.push_back(i % 3);
        large.push_back(huge - 2 + i % 3);
    }
    const std::vector<double> radius(60, 8.0);
    const CandidateLists few = find_impostors(points, small, 3, radius, 10000),
                         many = find_impostors(points, large, huge + 1, radius, 10000);
    CHECK(few.columns == many.columns && few.row_starts == many.row_starts);
    CHECK(few.columns.size() > 1000);
    for (Index i = 0; i < 60; ++i)
        CHECK(std::is_sorted(few.columns.begin() + few.row_starts[i],
                             few.columns.begin() + few.row_starts[i + 1]));
    const auto infer = [&](const Ids &labels, Index classes, bool given) {
        Ids found(60 * 5);
        InferenceProblem problem;
        problem.query_labels = problem.database_labels = labels;
        problem.options.k = 5;
        problem.options.ties = Ties::label;
        problem.options.loss.classes = classes;
        problem.augmented.indices = found;
        Matrix distances(60, 60);
        pairwise_distances<double>(points, points, true, view(distances));
        if (given)
            infer_from_distances(view(static_cast<const Matrix &>(distances)), problem);
        else
            InferenceSearch(points, points, problem).run({});
        return found;
    };
    for (const bool given : {false, true})
        CHECK(infer(small, 3, given) == infer(large, huge + 1, given));
}

TEST(weights_beyond_the_range_of_floats) {
    const RowMatrix<float> x = random_points<float>(30, 3);
    const Ids y = [] {
        Ids labels;
        for (Index i = 0; i < 30; ++i)
            labels.push_back(i % 3);
        return labels;
    }();
    const Ids self = [] {
        Ids rows;
        for (Index i = 0; i < 30; ++i)
            rows.push_back(i);
        return rows;
    }();
    const auto gradient = [&](double unit, const auto &make, Index database) {
        std::vector<double> weights;
        for (Index i = 0; i < 30; ++i)
            weights.push_back(unit * static_cast<double>(1 + i % 4));
        RowProblem<float> problem;
        problem.queries = view(x);
        problem.database = view(x).middle_rows(0, database);
        problem.symmetric = database == 30;
        problem.weights = weights;
        if (problem.symmetric)
            problem.exclude = self;
        const std::unique_ptr<RowLoss<float>> loss = make(problem);
        RowMatrix<float> of_queries(30, 3), of_database(database, 3);
        const double value = RowEngine<float>(problem, *loss, {})
                                 .value_and_gradient(view(of_queries), view(of_database))
                                 .value;
        CHECK(std::isfinite(value));
        return of_queries;
    };
    const auto check = [&](const auto &make, Index database) {
        const RowMatrix<float> expected = gradient(1, make, database);
        CHECK(!expected.isZero() && expected.allFinite());
        for (const double unit : {std::ldexp(1.0, -300), std::ldexp(1.0, 300)})
            CHECK(gradient(unit, make, database) == expected);
    };
    for (const Index database : {Index(30), Index(20)}) {
        const Codes some(y.data(), database);
        check(
            [&](RowProblem<float> &problem) {
                problem.reduction = Reduction::mean;
                return std::make_unique<NcaLoss<float>>(NcaLoss<float>::Form::log,
                                                        ClassLabels{y, some});
            },
            database);
        for (const bool active : {false, true})
            check(
                [&](RowProblem<float> &problem) {
                    auto loss = std::make_unique<ContrastiveLoss<float>>(ContrastiveSettings{},
                                                                         ClassLabels{y, some});
                    loss->set_divisors(active ? loss->active_pairs(problem, {})
                                              : loss->all_pairs(problem));
                    return loss;
                },
                database);
    }
}

TEST(the_excluded_row_has_no_weight) {
    const Matrix x = random_points<double>(4, 2), z = random_points<double>(4, 2);
    const Ids y{0, 1, 0, 1}, self{0, 1, 2, 3};
    const std::vector<double> heavy(4, 3.0), ones(4, 1.0);
    const auto value = [&](Weights columns) { // queries are no rows of the database
        RowProblem<double> problem;
        problem.queries = view(z);
        problem.database = view(x);
        problem.exclude = self;
        Matrix of_queries(4, 2), of_database(4, 2);
        const NcaLoss<double> loss(NcaLoss<double>::Form::log, {y, y}, columns);
        return RowEngine<double>(problem, loss, {})
            .value_and_gradient(view(of_queries), view(of_database))
            .value;
    };
    CHECK_NEAR(value(heavy), value(ones), 1e-12);

    const Ids starts{0, 2, 4, 6, 8}, columns{0, 1, 1, 2, 2, 3, 3, 0};
    const std::vector<double> weights{0, 1, 0, 2, 0, 3, 0, 4}; // zero at the excluded rows
    RowProblem<double> problem;
    problem.queries = problem.database = view(x);
    problem.symmetric = true;
    problem.exclude = self;
    problem.candidates = {starts, columns};
    Matrix gradient(4, 2);
    const SparseWeightsLoss<double> loss(starts, weights);
    const double sum =
        RowEngine<double>(problem, loss, {}).value_and_gradient(view(gradient), {}).value;
    CHECK(std::isfinite(sum) && gradient.allFinite());
}

} // namespace test_boundaries
