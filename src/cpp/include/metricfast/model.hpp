/// Models saved by Python: loading, transforming points, and search.
#pragma once

#include "metricfast/model/model.hpp"
#include "metricfast/search/database.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A database of points under a model, with the results of
/// metricfast.NearestNeighbors(metric=learner). The model must outlive it; the points need not.
class ModelDatabase {
  public:
    ModelDatabase(const Model &model, const Points &points, DatabaseOptions options = {},
                  const Control &control = {})
        : model_(model) {
        if (options.metric != Metric::inner_product)
            model.require_distance();
        model.require_features(points, ModelSide::database);
        if (linear()) {
            // Only differences do not depend on the origin.
            origin_ = options.metric == Metric::euclidean
                          ? embedding_origin(points, model.components(), model.components())
                          : std::vector<double>(static_cast<std::size_t>(points.cols()), 0.0);
            double_ = embed_finite(points, model.components(), origin_, control);
        } else {
            points.visit(
                [&](auto v) { embedded(v) = model.transform(v, ModelSide::database, control); });
        }
        database_ = std::make_unique<Database>(
            single_.size() != 0 ? Points(view(single_)) : Points(view(double_)), options, control);
    }

    ModelDatabase(const Model &&model, const Points &points, DatabaseOptions options = {},
                  const Control &control = {}) = delete; // it would dangle

    const Database &database() const { return *database_; }

    /// See Database::search().
    template <class T>
    void search(const Points &queries, Index k, const Filter &filter, View<T> distances,
                View<std::int64_t> indices, DatabaseMemory &memory,
                const Control &control = {}) const {
        model_.require_features(queries);
        const auto search = [&](const auto &z) {
            database_->search(Points(view(z)), k, filter, false, distances, indices, memory,
                              control);
        };
        if (linear())
            search(embed_finite(queries, model_.components(), origin_, control));
        else
            queries.visit([&](auto v) { search(model_.transform(v, ModelSide::query, control)); });
    }

  private:
    bool linear() const { return model_.kind() == ModelKind::linear; }
    RowMatrix<float> &embedded(View<const float>) { return single_; }
    RowMatrix<double> &embedded(View<const double>) { return double_; }

    const Model &model_;
    std::vector<double> origin_; ///< origin of a linear map
    RowMatrix<float> single_;    ///< searched points in single precision, or in double
    RowMatrix<double> double_;
    std::unique_ptr<Database> database_;
};

METRICFAST_NAMESPACE_END
