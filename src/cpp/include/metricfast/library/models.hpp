/// Models that Python saved, as the compiled library offers them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "metricfast/library/search.hpp"
#include "metricfast/model/types.hpp"

namespace metricfast {

/// A learner of a file that `metricfast.save` wrote. Any number of threads may use it.
class SavedModel {
  public:
    virtual ~SavedModel() = default;

    /// The name of the class in Python.
    virtual const std::string &learner() const = 0;
    /// Features of points of a side.
    virtual Index n_features(ModelSide side = ModelSide::query) const = 0;
    virtual Index n_components() const = 0;

    /// Embeds points, as `learner.transform` does. Of a bilinear similarity x^T W x' that is W^T x
    /// of queries, and the points themselves of a database.
    /// \param z (points.rows, n_components()), written; may not overlap points.
    virtual void transform(View<const float> points, View<float> z,
                           ModelSide side = ModelSide::query,
                           const Control &control = {}) const = 0;
    virtual void transform(View<const double> points, View<double> z,
                           ModelSide side = ModelSide::query,
                           const Control &control = {}) const = 0;

    /// The score of each pair of points: the negative distance, or x^T W x'.
    /// \param x, y rows of queries and of database points. \param scores one a row, written.
    virtual void pair_score(View<const float> x, View<const float> y, Span<float> scores,
                            const Control &control = {}) const = 0;
    virtual void pair_score(View<const double> x, View<const double> y, Span<double> scores,
                            const Control &control = {}) const = 0;

    /// Points that are searched under the model: it finds what
    /// metricfast.NearestNeighbors(metric=learner) finds. It refers neither to the points nor to
    /// this object. Throws std::invalid_argument for a bilinear similarity, which is no distance.
    virtual std::unique_ptr<SearchDatabase> prepare_database(const Points &points,
                                                             const Control &control = {}) const = 0;
};

class ModelKernels {
  public:
    virtual ~ModelKernels() = default;

    /// \throws std::filesystem::filesystem_error where the file cannot be read, ModelError where it
    ///   is damaged, or no model that this library reads. The message names the file.
    virtual std::unique_ptr<SavedModel> load(const std::filesystem::path &path) const = 0;
    /// Reads a model from the bytes of such a file.
    virtual std::unique_ptr<SavedModel> parse(std::string content) const = 0;
};

} // namespace metricfast
