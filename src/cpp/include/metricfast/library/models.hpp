/// Models saved by Python, in the compiled library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "metricfast/library/search.hpp"
#include "metricfast/model/types.hpp"

namespace metricfast {

/// A learner from a file of `metricfast.save`. Any number of threads may use it.
class SavedModel {
  public:
    virtual ~SavedModel() = default;

    /// The name of the Python class.
    virtual const std::string &learner() const = 0;
    /// The number of features of the points of a side.
    virtual Index n_features(ModelSide side = ModelSide::query) const = 0;
    virtual Index n_components() const = 0;

    /// Embeds points like `learner.transform`. For a bilinear similarity x^T W x', queries become
    /// W^T x, and database points are unchanged.
    /// \param z (points.rows, n_components()), written; may not overlap points.
    virtual void transform(View<const float> points, View<float> z,
                           ModelSide side = ModelSide::query,
                           const Control &control = {}) const = 0;
    virtual void transform(View<const double> points, View<double> z,
                           ModelSide side = ModelSide::query,
                           const Control &control = {}) const = 0;

    /// Computes the score of each pair of points: the negative distance, or x^T W x'.
    /// \param x queries. \param y database points. \param scores one per row, written.
    virtual void pair_score(View<const float> x, View<const float> y, Span<float> scores,
                            const Control &control = {}) const = 0;
    virtual void pair_score(View<const double> x, View<const double> y, Span<double> scores,
                            const Control &control = {}) const = 0;

    /// Prepares points for searches under the model, with the results of
    /// metricfast.NearestNeighbors(metric=learner). The database refers neither to the points nor
    /// to this object. A bilinear similarity is searched by the metric `inner_product`; throws
    /// std::invalid_argument under other metrics.
    virtual std::unique_ptr<SearchDatabase>
    prepare_database(const Points &points, const Control &control = {},
                     Metric metric = Metric::euclidean) const = 0;
};

#define METRICFAST_MODEL_KERNELS(DO)                                                               \
    DO(load)                                                                                       \
    DO(parse)

struct ModelKernels {
    /// \throws std::filesystem::filesystem_error if the file cannot be read, ModelError if it is
    ///   damaged or is not a model that this library reads. The message names the file.
    Kernel<std::unique_ptr<SavedModel>(const std::filesystem::path &path)> load;
    /// Reads a model from the bytes of such a file.
    Kernel<std::unique_ptr<SavedModel>(std::string content)> parse;
};

} // namespace metricfast
