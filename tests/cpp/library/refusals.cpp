/// What the compiled library refuses.
#include <array>
#include <filesystem>
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

TEST(parameters_of_losses) {
    for (const double temperature : {0.0, -1.0, std::nan("")}) {
        CHECK_THROWS(bad, "temperature", losses().ntxent(classes, temperature));
        CHECK_THROWS(bad, "temperature", losses().supcon(classes, temperature));
        CHECK_THROWS(bad, "temperature", losses().smooth_ap(classes, temperature));
        CHECK_THROWS(bad, "temperature", losses().recall_at_k(classes, {1}, temperature, 1));
        CHECK_THROWS(bad, "gamma", losses().circle(classes, 0, temperature));
    }
    CHECK_THROWS(bad, "k must", losses().recall_at_k(classes, {0}, 1, 1));
    CHECK_THROWS(bad, "margin", losses().circle(classes, std::nan(""), 1));
    CHECK_THROWS(bad, "negative_margin", losses().lifted(classes, {0, INFINITY, true}));
    CHECK_THROWS(bad, "mean must", losses().contrastive(classes, {}, "each", {}, {}));
    CHECK_THROWS(bad, "function",
                 losses().compiled(nullptr, nullptr, RowKind::distance, {0, 1}, {0, 1}));
}

TEST(a_loss_that_overflows) {
    const std::vector<double> L{1e160, 0};
    CHECK_THROWS(std::overflow_error, "overflows",
                 value_and_gradient(*losses().nca(classes, {true}), points, view(L, 1, 2)));
}

TEST(lengths) {
    const std::vector<double> three{1, 2, 3}, L{1, 2};
    std::vector<double> one(1), out(5);
    std::int64_t terms = 0;
    CHECK_THROWS(bad, "same length", library().losses.cosent(three, three, 1, one, terms, 0));
    CHECK_THROWS(bad, "same length", library().losses.cosent(three, one, 1, out, terms, 0));
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

TEST(problems_are_checked_before_they_are_read) {
    const std::vector<std::int64_t> three{0, 1, 2}, outside{0, 1, 2, 3, 5},
        starts{0, 1, 2, 3, 4, 5};
    const std::vector<double> light{1, 1, 1}, weights(5, 1.0);
    for (const char *const mean : {"all", "active"}) {
        RowProblem<double> problem;
        problem.queries = problem.database = points;
        const auto make = [&](const ClassLabels &of) {
            losses().contrastive(of, {}, mean, problem);
        };
        CHECK_THROWS(bad, "one label", make({three, labels}));
        CHECK_THROWS(bad, "one label", make({labels, three}));
        problem.exclude = outside;
        CHECK_THROWS(bad, "exclude holds", make(classes));
        problem.exclude = three;
        CHECK_THROWS(bad, "one entry per query", make(classes));
        problem.exclude = nullptr;
        problem.weights = light;
        CHECK_THROWS(bad, "weights must have", make(classes));
    }
    RowProblem<double> problem;
    problem.queries = problem.database = points;
    problem.symmetric = true;
    std::vector<double> gradient(10);
    const auto sparse = losses().sparse_weights(starts, weights);
    CHECK_THROWS(bad, "candidate lists",
                 losses().value_and_gradient(problem, *sparse, view(gradient, 5, 2), {}));
}

TEST(ids_are_labels) {
    const std::vector<std::int64_t> ids{7000000000001, 7000000000001, 7000000000001, 9, 9};
    const std::vector<double> L{0.1, 0.1};
    const auto value = [&](const ClassLabels &of) {
        return value_and_gradient(*losses().nca(of, {true}), points, view(L, 1, 2)).value;
    };
    CHECK(value({ids, ids}) == value(classes));
}

TEST(rows_to_exclude) {
    std::vector<double> distances(5);
    std::vector<std::int64_t> rows(5);
    for (const std::int64_t wrong : {std::int64_t(5), std::int64_t(-2)}) {
        const std::vector<std::int64_t> exclude{0, 1, wrong, 3, 4};
        CHECK_THROWS(bad, "exclude holds",
                     prepare_database(points)->search(points, 1, exclude, false,
                                                      view(distances, 5, 1), view(rows, 5, 1)));
    }
}

TEST(files_that_are_no_models) {
    CHECK_THROWS(std::filesystem::filesystem_error, "no_such_file",
                 library().load_model("no_such_file.safetensors"));
    CHECK_THROWS(ModelError, "", library().models.parse("this is no model"));
}

TEST(more_neighbors_than_points) {
    CHECK_THROWS(bad, "exceeds", kneighbors(points, points, Index(1) << 60));
    CHECK_THROWS(bad, "exceeds", kneighbors(points, *prepare_database(points), 6));
}

} // namespace
