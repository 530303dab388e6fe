/// What the compiled library refuses.
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "check.hpp"

#include <metricfast/library/calls.hpp>

using namespace metricfast;
using bad = std::invalid_argument;

namespace {

const std::vector<double> x{0, 9, 1, -7, 3, 4, 6, 0, 10, 5};
const std::array<std::int64_t, 5> labels{0, 0, 0, 1, 1};
const ClassLabels classes{labels, labels};
const auto points = view(x, 5, 2);
const LossKernels<double> &losses() { return library().of<double>().losses; }

/// A part of the message, values of an argument that are refused, and a call with such a value.
struct Refused {
    const char *part;
    std::vector<double> values;
    std::function<void(double)> call;
};

const double nan = std::nan(""), infinity = INFINITY;
const std::vector<double> not_finite{nan, infinity, -infinity}, negative{-1, nan},
    no_weight{-1, nan, infinity}, not_positive{0, -1, nan, infinity}, below_one{0, -1};

/// Lists with one such value, which stay until the next call.
const std::vector<double> &with(double value) {
    static std::vector<double> kept;
    return kept = {1, 1, value, 1, 1};
}
const std::vector<std::int64_t> &code(double value) {
    static std::vector<std::int64_t> kept;
    return kept = {0, static_cast<std::int64_t>(value), 1, 1, 0};
}

void run(const std::unique_ptr<Loss<double>> &loss, Weights weights = nullptr, Index first = -1) {
    RowProblem<double> problem;
    problem.queries = problem.database = points;
    problem.weights = weights;
    problem.first = first;
    std::vector<double> of_queries(10), of_database(10);
    losses().value_and_gradient(problem, *loss, view(of_queries, 5, 2), view(of_database, 5, 2));
}

void search(Index k, Codes exclude = nullptr) {
    const Index size = std::min<Index>(5 * std::max<Index>(k, 0), 50);
    std::vector<double> distances(static_cast<std::size_t>(size));
    std::vector<std::int64_t> rows(static_cast<std::size_t>(size));
    library().of<double>().search.kneighbors(points, points, {}, k, exclude, false,
                                             view(distances, 5, size / 5), view(rows, 5, size / 5));
}

void infer(Index k, Codes queries, Codes database, VoteLoss loss, Codes exclude = nullptr) {
    std::vector<double> plain(5), distances(25, 1.0);
    InferenceProblem problem;
    problem.query_labels = queries;
    problem.database_labels = database;
    problem.options.k = k;
    problem.options.loss = loss;
    problem.exclude = exclude;
    problem.plain = plain;
    library().of<double>().search.infer_from_distances(view(distances, 5, 5), problem);
    library().points.infer(points, points, problem);
}

void infer(double cost, std::size_t place) {
    std::vector<double> costs{0, 1, 1, 0};
    costs[place] = cost;
    infer(2, labels, labels, {costs, 2});
}

NeighborLists<double> within(const RadiusSettings &settings) {
    return library().of<double>().search.radius_neighbors(points, points, {}, settings);
}

void votes(Weights log_weight, Codes exclude = nullptr) {
    std::vector<double> out(10);
    library().of<double>().search.soft_votes(points, points, points, log_weight, exclude,
                                             view(out, 5, 2));
}

void impostors(Codes classes_of, Index number, Weights radius) {
    library().points.find_impostors(points, classes_of, number, radius, 100);
}

const std::vector<double> identity{1, 0, 0, 1}, line{0, 1, 2, 3, 4};
const std::vector<std::int64_t> tuples{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
const Codes triplets(tuples.data(), 15);
const auto metric = view(identity, 2, 2);
const ConstraintKernels &constraints() { return library().constraints; }

LabelPairs numbers(const std::vector<double> &values) {
    return {LabelMetric::euclidean, view(values, 5, 1), view(values, 5, 1)};
}
void each_of_numbers(const std::vector<double> &values) { losses().log_ratio(numbers(values), {}); }
void given_distances(double value) {
    std::vector<double> distances(25, value);
    LabelPairs pairs;
    pairs.metric = LabelMetric::precomputed;
    pairs.queries = view(distances, 5, 5);
    losses().rank_n_contrast(pairs, 1);
}

void group(double weight, double of_group) {
    std::vector<double> out(4);
    const auto &weights = with(weight);
    const auto &groups = code(of_group);
    constraints().group_sums(points, weights, groups, view(out, 2, 2), nullptr);
}
void group_scatter(double weight, double of_group) {
    std::vector<double> out(4);
    const auto &weights = with(weight);
    const auto &groups = code(of_group);
    constraints().group_scatter(view(out, 2, 2), points, weights, groups, metric, nullptr);
}
void local(double weight, Index k) {
    std::vector<double> out(4);
    const auto &weights = with(weight);
    constraints().local_scatter(view(out, 2, 2), points, weights, k);
}
void lsml(double weight, Codes quadruplets) {
    std::vector<double> out(4);
    const auto &weights = with(weight);
    constraints().lsml_loss(view(out, 2, 2), points, {quadruplets, 4}, weights, metric);
}
void oasis(double weight, double C, Codes three) {
    std::vector<double> W = identity;
    const auto &weights = with(weight);
    const std::vector<std::int64_t> order{0, 1, 2, 3, 4};
    library().of<double>().triplets.oasis(points, three, weights, order, C, view(W, 2, 2));
}
void scale(double weight, double penalty, Codes three) {
    const auto &weights = with(weight);
    constraints().triplet_objective(points, metric, three, weights, penalty);
}
void itml(ItmlBounds bounds) {
    constraints().itml({points, {tuples.data(), 8}, 2}, bounds, metric);
}
void scml(ScmlSettings settings) {
    std::vector<double> weights(2);
    library().of<double>().triplets.scml(points, triplets, metric, settings, weights,
                                         [](Index) { return ScmlDraws{}; });
}
const std::vector<std::int64_t> &outside(double row) {
    static std::vector<std::int64_t> kept;
    kept = tuples;
    kept[7] = static_cast<std::int64_t>(row);
    return kept;
}

TEST(values_of_each_argument) {
    const std::vector<double> no_row{5, -1}, no_excluded{5, -2}, ones(5, 1.0);
    const Refused table[] = {
        // losses
        {"temperature", not_positive, [](double v) { losses().ntxent(classes, v); }},
        {"temperature", not_positive, [](double v) { losses().supcon(classes, v); }},
        {"temperature", not_positive, [](double v) { losses().smooth_ap(classes, v); }},
        {"temperature", not_positive, [](double v) { losses().recall_at_k(classes, {1}, v, 1); }},
        {"rank_temperature", not_positive,
         [](double v) { losses().recall_at_k(classes, {1}, 1, v); }},
        {"temperature", not_positive, [](double v) { losses().rank_n_contrast(numbers(line), v); }},
        {"k must", not_positive, [](double v) { losses().recall_at_k(classes, {v}, 1, 1); }},
        {"gamma", not_positive, [](double v) { losses().circle(classes, 0, v); }},
        {"margin", not_finite, [](double v) { losses().circle(classes, v, 1); }},
        {"positive_margin", not_finite, [](double v) { losses().lifted(classes, {v, 1}); }},
        {"negative_margin", not_finite, [](double v) { losses().lifted(classes, {0, v}); }},
        {"positive_margin", not_finite,
         [](double v) { losses().contrastive(classes, {v, 1}, "", {}); }},
        {"negative_margin", not_finite,
         [](double v) { losses().contrastive(classes, {0, v}, "", {}); }},
        {"margin", not_finite, [](double v) { losses().triplet(classes, {v}); }},
        {"margin", not_finite, [](double v) { losses().dense_triplet(numbers(line), {v}); }},
        {"margin", no_weight, [](double v) { run(losses().lmnn(classes, {labels, 1, 0.5, v})); }},
        {"regularization",
         {-1, 2, nan},
         [](double v) { run(losses().lmnn(classes, {labels, 1, v})); }},
        {"target",
         {5, -2},
         [](double v) {
             const auto &targets = code(v);
             run(losses().lmnn(classes, {targets, 1}));
         }},
        {"bias", not_finite,
         [](double v) {
             std::vector<double> slopes(5);
             losses().ldml(classes, nullptr, v, slopes);
         }},
        {"alpha", not_positive,
         [](double v) { losses().softplus_pairs(classes, nullptr, {v, 0, 1, 1, 0, 1}); }},
        {"base_positive", not_finite,
         [](double v) { losses().softplus_pairs(classes, nullptr, {1, v, 1, 1, 0, 1}); }},
        {"f_positive", not_finite,
         [](double v) { losses().softplus_pairs(classes, nullptr, {1, 0, v, 1, 0, 1}); }},
        {"beta", not_positive,
         [](double v) { losses().softplus_pairs(classes, nullptr, {1, 0, 1, v, 0, 1}); }},
        {"base_negative", not_finite,
         [](double v) { losses().softplus_pairs(classes, nullptr, {1, 0, 1, 1, v, 1}); }},
        {"f_negative", not_finite,
         [](double v) { losses().softplus_pairs(classes, nullptr, {1, 0, 1, 1, 0, v}); }},
        {"eps_distance", no_weight,
         [](double v) { losses().log_ratio(numbers(line), {true, true, v}); }},
        {"eps_log", no_weight,
         [](double v) { losses().plain_ratio(numbers(line), {true, true, 0, v}); }},
        {"eps_log", no_weight,
         [](double v) { losses().bounded_ratio(numbers(line), {true, true, 0, v}); }},
        {"labels must be finite", not_finite, [](double v) { each_of_numbers(with(v)); }},
        {"targets must be finite", not_finite,
         [](double v) {
             const auto &values = with(v);
             losses().mlkr(view(values, 5, 1), view(values, 5, 1), nullptr, true);
         }},
        {"between labels", no_weight, given_distances},
        {"must not be negative",
         {-1},
         [](double v) {
             const auto &below_zero = code(v);
             losses().nca({below_zero, below_zero}, {});
         }},
        {"column weights", no_weight,
         [](double v) { losses().nca(classes, {false, true, with(v)}); }},
        {"column weights", no_weight, [](double v) { losses().mcml(classes, with(v)); }},
        // the row engine
        {"weights must be", no_weight, [](double v) { run(losses().nca(classes, {}), with(v)); }},
        {"the rows from",
         {1, 5},
         [](double v) { run(losses().nca(classes, {}), nullptr, static_cast<Index>(v)); }},
        {"rounding",
         {-1, nan},
         [](double v) {
             std::vector<double> weights(5);
             library().losses.cosent(line, line, 1, weights, v, nullptr);
         }},
        // searches
        {"n_neighbors", below_one, [](double v) { search(static_cast<Index>(v)); }},
        {"exceeds", {6}, [](double v) { search(static_cast<Index>(v)); }},
        {"exclude holds", no_excluded, [](double v) { search(1, code(v)); }},
        {"radius", {-1, nan, infinity}, [](double v) { within({v}); }},
        {"most",
         {-1},
         [](double v) {
             RadiusSettings settings;
             settings.most = static_cast<std::int64_t>(v);
             within(settings);
         }},
        {"exclude holds", no_excluded,
         [](double v) {
             const auto &exclude = code(v);
             within({1, exclude});
         }},
        {"log_weight", {nan, infinity}, [](double v) { votes(with(v)); }},
        {"exclude holds", no_excluded, [](double v) { votes(nullptr, code(v)); }},
        {"a radius", negative, [](double v) { impostors(labels, 2, with(v)); }},
        {"label out of range", {2, -1}, [&](double v) { impostors(code(v), 2, ones); }},
        {"negative number of classes",
         {-1},
         [&](double v) { impostors(labels, static_cast<Index>(v), ones); }},
        {"label out of range",
         {2, -1},
         [](double v) {
             std::vector<double> distances(10);
             std::vector<std::int64_t> rows(10);
             library().of<double>().search.kneighbors_per_class(points, points, {}, code(v), 2, 1,
                                                                nullptr, false, distances, rows);
         }},
        // inference
        {"n_neighbors", below_one,
         [](double v) { infer(static_cast<Index>(v), labels, labels, {nullptr, 2}); }},
        {"query label", {2, -1}, [](double v) { infer(1, code(v), labels, {nullptr, 2}); }},
        {"database label", {2, -1}, [](double v) { infer(1, labels, code(v), {nullptr, 2}); }},
        {"exclude holds", no_excluded,
         [](double v) { infer(1, labels, labels, {nullptr, 2}, code(v)); }},
        {"numbers from 0", no_weight, [](double v) { infer(v, 1); }},
        {"diagonal", {1}, [](double v) { infer(v, 3); }},
        {"classes must be",
         {-1, 1e10},
         [](double v) { infer(1, labels, labels, {nullptr, static_cast<Index>(v)}); }},
        // learners of tuples, and scatter
        {"weights must be", no_weight, [](double v) { group(v, 0); }},
        {"outside the groups", {2, -1}, [](double v) { group(1, v); }},
        {"weights must be", no_weight, [](double v) { group_scatter(v, 0); }},
        {"outside the groups", {2, -1}, [](double v) { group_scatter(1, v); }},
        {"weights must be", no_weight, [](double v) { local(v, 1); }},
        {"k must", below_one, [](double v) { local(1, static_cast<Index>(v)); }},
        {"weights must be", no_weight, [](double v) { lsml(v, tuples); }},
        {"outside the points", no_row, [](double v) { lsml(1, outside(v)); }},
        {"weights must be", no_weight, [](double v) { oasis(v, 1, triplets); }},
        {"C must", {0, -1, nan}, [](double v) { oasis(1, v, triplets); }},
        {"outside the points", no_row,
         [](double v) {
             const auto &changed = outside(v);
             oasis(1, 1, {changed.data(), 15});
         }},
        {"weights must be", no_weight, [](double v) { scale(v, 0, triplets); }},
        {"penalty", negative, [](double v) { scale(1, v, triplets); }},
        {"itml", {0, -1, nan}, [](double v) { itml({v, 1, 1}); }},
        {"itml", {0, -1, nan}, [](double v) { itml({1, v, 1}); }},
        {"itml", {0, -1, nan}, [](double v) { itml({1, 1, v}); }},
        {"scml", negative, [](double v) { scml({v, 1, 1}); }},
        {"scml", {0, -1, nan}, [](double v) { scml({0, v, 1}); }},
        {"scml", below_one, [](double v) { scml({0, 1, static_cast<Index>(v)}); }},
    };
    for (const Refused &row : table)
        for (const double value : row.values)
            CHECK_THROWS(bad, row.part, row.call(value));
    CHECK_THROWS(bad, "k must", losses().recall_at_k(classes, {}, 1, 1));
    CHECK_THROWS(bad, "mean must", losses().contrastive(classes, {}, "each", {}, {}));
    CHECK_THROWS(bad, "function",
                 losses().compiled(nullptr, nullptr, RowKind::distance, {0, 1}, {0, 1}));
    struct Other : Loss<double> {};
    CHECK_THROWS(bad, "of this library", run(std::make_unique<Other>()));
    const std::vector<std::int64_t> starts{0, 1, 2, 3, 4, 5}, members{0, 3, 5};
    const Tags tags(starts, labels, members, code(2), 5);
    CHECK_THROWS(bad, "no loss", losses().of_tags(tags, [](ClassLabels) { return nullptr; }));
    CHECK_THROWS(bad, "one label", losses().of_tags(tags, [](ClassLabels) {
        return losses().nca({{labels.data(), 1}, {labels.data(), 1}}, {});
    }));
}

TEST(a_loss_that_overflows) {
    const std::vector<double> L{1e160, 0};
    CHECK_THROWS(std::overflow_error, "overflows",
                 value_and_gradient(*losses().nca(classes, {true}), points, view(L, 1, 2)));
}

TEST(lengths) {
    const std::vector<double> three{1, 2, 3}, L{1, 2};
    std::vector<double> one(1), out(5);
    CHECK_THROWS(bad, "same length", library().losses.cosent(three, three, 1, one, 0, nullptr));
    CHECK_THROWS(bad, "same length", library().losses.cosent(three, one, 1, out, 0, nullptr));
    const auto embed = [&](Span<const double> origin) {
        library().points.embed(points, view(L, 1, 2), origin, view(out, 5, 1));
    };
    embed(nullptr);
    CHECK(out[0] == 18 && out[4] == 20);
    CHECK_THROWS(bad, "origin", embed(one));
    CHECK_THROWS(bad, "origin", embed(three));
    CHECK_THROWS(bad, "one entry per feature", library().points.extent(points, one, 1));
}

TEST(two_lists_in_braces_are_labels) {
    RowProblem<double> problem;
    problem.queries = problem.database = points;
    problem.symmetric = true;
    const auto loss = losses().contrastive({labels, labels}, {}, "all", problem);
    std::vector<double> gradient(10);
    CHECK(losses().value_and_gradient(problem, *loss, view(gradient, 5, 2), {}).anchors == 5);
}

TEST(files_that_are_no_models) {
    CHECK_THROWS(std::filesystem::filesystem_error, "no_such_file",
                 library().load_model("no_such_file.safetensors"));
    CHECK_THROWS(ModelError, "", library().models.parse("this is no model"));
}

TEST(arguments_of_c_functions) {
    metricfast_model *model = nullptr;
    CHECK(metricfast_model_parse("no model", 8, &model) == METRICFAST_ERROR_MODEL && !model);
    CHECK(metricfast_model_parse(nullptr, 0, &model) != METRICFAST_OK);
    CHECK(metricfast_model_load("no_such_file", &model) == METRICFAST_ERROR_FILE);
    CHECK(metricfast_model_load("no_such_file", nullptr) == METRICFAST_ERROR_ARGUMENT);
    metricfast_database *database = nullptr;
    CHECK(metricfast_database_create_f64(nullptr, x.data(), 5, METRICFAST_EUCLIDEAN, 1,
                                         &database) == METRICFAST_ERROR_ARGUMENT);
    CHECK(std::string(metricfast_last_error()).find("model is null") != std::string::npos);
    std::vector<double> distances(5);
    std::vector<std::int64_t> rows(5);
    CHECK(metricfast_database_search_f64(nullptr, x.data(), 5, 1, nullptr, distances.data(),
                                         rows.data(), 1) == METRICFAST_ERROR_ARGUMENT);
    CHECK(metricfast_transform_f64(nullptr, METRICFAST_QUERY, x.data(), 5, distances.data(), 1) ==
          METRICFAST_ERROR_ARGUMENT);
    CHECK(metricfast_model_n_features(nullptr) == 0 && metricfast_database_n_points(nullptr) == 0);
    metricfast_model_free(nullptr);
    metricfast_database_free(nullptr);
}

TEST(more_neighbors_than_points) {
    CHECK_THROWS(bad, "exceeds", kneighbors(points, points, Index(1) << 60));
    CHECK_THROWS(bad, "exceeds", kneighbors(points, *prepare_database(points), 6));
}

} // namespace
