/// What the compiled library refuses.
#include <array>
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
    CHECK_THROWS(bad, "negative_margin", losses().lifted(classes, 0, INFINITY, true));
    CHECK_THROWS(bad, "mean must", losses().contrastive(classes, {}, "each", {}, {}));
    CHECK_THROWS(bad, "function",
                 losses().compiled(nullptr, nullptr, RowKind::distance, {0, 1}, {0, 1}));
}

TEST(a_loss_that_overflows) {
    const std::vector<double> L{1e160, 0};
    CHECK_THROWS(
        std::overflow_error, "overflows",
        value_and_gradient(*losses().nca(classes, nullptr, true, true), points, view(L, 1, 2)));
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
}

TEST(more_neighbors_than_points) {
    CHECK_THROWS(bad, "exceeds", kneighbors(points, points, Index(1) << 60));
    CHECK_THROWS(bad, "exceeds", kneighbors(points, *prepare_database(points), 6));
}

} // namespace
