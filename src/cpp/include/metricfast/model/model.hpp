/// Models saved by Python: reading, and application to points.
#pragma once

#include "metricfast/distance/paired.hpp"
#include "metricfast/model/reading.hpp"
#include "metricfast/model/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A learner from a file of `metricfast.save`. Several threads may use it.
class Model {
  public:
    /// \throws std::filesystem::filesystem_error if the file cannot be read, ModelError if it is
    ///   damaged or not a supported model. The message names the file.
    static Model load(const std::filesystem::path &path) {
        try {
            return Model(TensorFile::load(path));
        } catch (const ModelError &error) {
            throw ModelError(path.string() + ": " + error.what());
        }
    }

    /// Reads a model from the bytes of a model file.
    static Model parse(std::string content) { return Model(TensorFile(std::move(content))); }

    explicit Model(const TensorFile &file) : content_(read_model(file)) {
        for (const SideMap<double> &side : content_.sides)
            single_.push_back(side.cast<float>());
    }

    /// The name of the class in Python.
    const std::string &learner() const { return content_.learner; }
    ModelKind kind() const { return content_.kind; }
    /// The number of features of a side's points.
    Index n_features(ModelSide side = ModelSide::query) const {
        const std::size_t which = side == ModelSide::database && two_sided() ? 1 : 0;
        const std::vector<double> &mean = content_.sides[which].mean;
        return mean.empty() ? content_.n_features : static_cast<Index>(mean.size());
    }
    Index n_components() const { return content_.n_components; }
    /// Returns whether queries and database points are embedded differently.
    bool two_sided() const { return content_.sides.size() == 2; }
    /// Returns whether the model was learned in float64, not float32.
    bool is_double() const { return content_.is_double; }

    /// Embeds points, in their precision. For a bilinear similarity x^T W x', the result is W^T x
    /// for queries and x' for database points, so that the similarity is their inner product.
    /// \param z (points.rows, n_components()), written; may not overlap points.
    template <class T>
    void transform(View<T> points, View<std::remove_const_t<T>> z,
                   ModelSide side = ModelSide::query, const Control &control = {}) const {
        require_features(Points(points), side);
        require(z.rows == points.rows && z.cols == n_components(),
                "z must have a row for each point, and n_components columns");
        require_finite(Points(points), "points contain NaN or infinity");
        map<std::remove_const_t<T>>(side).apply(points, z, control);
        require_finite(Points(z), "points are so large that embedded points overflow");
    }

    template <class T>
    RowMatrix<std::remove_const_t<T>> transform(View<T> points, ModelSide side = ModelSide::query,
                                                const Control &control = {}) const {
        RowMatrix<std::remove_const_t<T>> z(points.rows, n_components());
        transform(points, view(z), side, control);
        return z;
    }

    /// Throws unless the model defines a distance.
    void require_distance() const {
        require(kind() != ModelKind::bilinear,
                "a bilinear similarity is no distance: search by the metric inner_product");
    }

    /// Throws unless points have as many features as the side of the model.
    void require_features(const Points &points, ModelSide side = ModelSide::query) const {
        const Index expected = n_features(side);
        require(points.cols() == expected, "points must have " + std::to_string(expected) +
                                               " features, found " + std::to_string(points.cols()));
    }

    /// The score of each pair of points: the negative distance, or x^T W x'.
    /// \param x, y queries and database points, row by row.
    /// \param scores output, one per row.
    template <class T>
    void pair_score(View<const T> x, View<const T> y, Span<T> scores,
                    const Control &control = {}) const {
        require(x.rows == y.rows && scores.size() == x.rows,
                "there must be as many x, y and scores");
        const PairList pairs{nullptr, x.rows};
        if (kind() == ModelKind::linear) {
            paired_distances<T>(Points(x), Points(y), pairs, components(), components(), false,
                                scores, control);
        } else {
            const RowMatrix<T> left = transform(x, ModelSide::query, control);
            const RowMatrix<T> right = transform(y, ModelSide::database, control);
            if (kind() == ModelKind::embedding)
                paired_distances<T>(Points(view(left)), Points(view(right)), pairs, false, scores,
                                    control);
            else
                for (Index i = 0; i < x.rows; ++i)
                    scores[i] = -left.row(i).dot(right.row(i));
        }
        for (T &score : scores)
            score = -score;
        require_finite(Points(View<const T>(scores.data(), 1, scores.size())),
                       "points are so large that scores of pairs overflow");
    }

    /// The map of a linear model.
    const RowMatrix<double> &components() const {
        require(kind() == ModelKind::linear, "only a linear model has components");
        return content_.sides[0].layers[0].weight;
    }

  private:
    template <class T> const SideMap<T> &map(ModelSide side) const {
        const std::size_t which = side == ModelSide::database && two_sided() ? 1 : 0;
        if constexpr (std::is_same_v<T, float>)
            return single_[which];
        else
            return content_.sides[which];
    }

    ModelContent content_;
    std::vector<SideMap<float>> single_;
};

METRICFAST_NAMESPACE_END
