/// Models that Python saved.
#include <variant>

#include "areas.hpp"
#include "metricfast/model/model.hpp"
#include "models.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

DatabaseOptions with_metric(Metric metric) {
    DatabaseOptions options;
    options.metric = metric;
    return options;
}

/// A database of embedded points. The model embeds the queries, too.
class EmbeddedDatabase final : public SearchDatabase {
  public:
    EmbeddedDatabase(std::shared_ptr<const Model> model, const Points &points, Metric metric,
                     const Control &control)
        : model_(std::move(model)) {
        points.visit([&](auto v) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(v.data)>>;
            const auto &z = embedded_.template emplace<RowMatrix<T>>(
                model_->transform(v, ModelSide::database, control));
            database_ = point_kernels().prepare_database(view(z), {}, with_metric(metric), control);
        });
    }

    void search(const Points &queries, Index k, const Filter &filter, bool squared,
                View<float> distances, View<std::int64_t> indices,
                const Control &control) const override {
        run(queries, k, filter, squared, distances, indices, control);
    }
    void search(const Points &queries, Index k, const Filter &filter, bool squared,
                View<double> distances, View<std::int64_t> indices,
                const Control &control) const override {
        run(queries, k, filter, squared, distances, indices, control);
    }
    void radius_neighbors(const Points &queries, const RadiusSettings &settings,
                          NeighborLists<float> &found, const Control &control) const override {
        within(queries, settings, found, control);
    }
    void radius_neighbors(const Points &queries, const RadiusSettings &settings,
                          NeighborLists<double> &found, const Control &control) const override {
        within(queries, settings, found, control);
    }
    void infer(const Points &queries, const InferenceProblem &problem,
               const Control &control) const override {
        queries.visit([&](auto v) {
            const auto z = model_->transform(v, ModelSide::query, control);
            database_->infer(view(z), problem, control);
        });
    }
    const Points &points() const override { return database_->points(); }
    SearchRoute route() const override { return database_->route(); }
    Index cells() const override { return database_->cells(); }
    std::size_t bytes() const override {
        const auto size = [](const auto &z) {
            return static_cast<std::size_t>(z.size()) * sizeof(*z.data());
        };
        return database_->bytes() + std::visit(size, embedded_);
    }
    DatabaseState state() const override { return database_->state(); }

  private:
    template <class T>
    void run(const Points &queries, Index k, const Filter &filter, bool squared, View<T> distances,
             View<std::int64_t> indices, const Control &control) const {
        queries.visit([&](auto v) {
            const auto z = model_->transform(v, ModelSide::query, control);
            database_->search(view(z), k, filter, squared, distances, indices, control);
        });
    }

    template <class T>
    void within(const Points &queries, const RadiusSettings &settings, NeighborLists<T> &found,
                const Control &control) const {
        queries.visit([&](auto v) {
            const auto z = model_->transform(v, ModelSide::query, control);
            database_->radius_neighbors(view(z), settings, found, control);
        });
    }

    std::shared_ptr<const Model> model_;
    std::variant<RowMatrix<float>, RowMatrix<double>> embedded_;
    std::unique_ptr<SearchDatabase> database_;
};

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
        return std::make_unique<EmbeddedDatabase>(model_, points, metric, control);
    }

  private:
    std::shared_ptr<const Model> model_; ///< shared with its databases
};

class LevelModels final : public ModelKernels {
  public:
    std::unique_ptr<SavedModel> load(const std::filesystem::path &path) const override {
        return std::make_unique<LevelModel>(Model::load(path));
    }
    std::unique_ptr<SavedModel> parse(std::string content) const override {
        return std::make_unique<LevelModel>(Model::parse(std::move(content)));
    }
};

} // namespace

const ModelKernels &model_kernels() {
    static const LevelModels kernels;
    return kernels;
}

METRICFAST_NAMESPACE_END
