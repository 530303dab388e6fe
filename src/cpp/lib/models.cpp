/// Models that Python saved.
#include "models.hpp"
#include "areas.hpp"
#include "metricfast/model/model.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

DatabaseOptions with_metric(Metric metric) {
    DatabaseOptions options;
    options.metric = metric;
    return options;
}

class LevelModel final : public SavedModel {
  public:
    explicit LevelModel(Model model) : model_(std::make_shared<const Model>(std::move(model))) {}

    const std::string &learner() const override { return model_->learner(); }
    Index n_features(ModelSide side) const override { return model_->n_features(side); }
    Index n_components() const override { return model_->n_components(); }
    void transform(View<const float> points, View<float> z, ModelSide side,
                   const Control &control) const override {
        model_->transform(points, z, side, control);
    }
    void transform(View<const double> points, View<double> z, ModelSide side,
                   const Control &control) const override {
        model_->transform(points, z, side, control);
    }
    void pair_score(View<const float> x, View<const float> y, Span<float> scores,
                    const Control &control) const override {
        model_->pair_score(x, y, scores, control);
    }
    void pair_score(View<const double> x, View<const double> y, Span<double> scores,
                    const Control &control) const override {
        model_->pair_score(x, y, scores, control);
    }
    std::unique_ptr<SearchDatabase> prepare_database(const Points &points, const Control &control,
                                                     Metric metric) const override {
        require(points.rows() > 0, "there must be at least one point");
        if (metric != Metric::inner_product)
            model_->require_distance();
        model_->require_features(points, ModelSide::database);
        if (model_->kind() == ModelKind::linear)
            return point_kernels().prepare_database(points, Maps(view(model_->components())),
                                                    with_metric(metric), control);
        std::unique_ptr<SearchDatabase> database;
        points.visit([&](auto v) {
            const auto z = std::make_shared<const decltype(model_->transform(v))>(
                model_->transform(v, ModelSide::database, control));
            const auto embed = [model = model_](const Points &queries, const Control &how,
                                                const auto &search) {
                queries.visit([&](auto q) {
                    const auto image = model->transform(q, ModelSide::query, how);
                    search(Points(view(image)));
                });
            };
            database = prepare_images(view(*z), with_metric(metric), z,
                                      sizeof(*z->data()) * static_cast<std::size_t>(z->size()),
                                      embed, control);
        });
        return database;
    }

  private:
    std::shared_ptr<const Model> model_; ///< shared with its databases
};

} // namespace

namespace level {

std::unique_ptr<SavedModel> load(const std::filesystem::path &path) {
    return std::make_unique<LevelModel>(Model::load(path));
}

std::unique_ptr<SavedModel> parse(std::string content) {
    return std::make_unique<LevelModel>(Model::parse(std::move(content)));
}

} // namespace level

METRICFAST_TABLE(ModelKernels, METRICFAST_MODEL_KERNELS, model_kernels)

METRICFAST_NAMESPACE_END
