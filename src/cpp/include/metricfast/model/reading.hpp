/// Conversion of a model file to maps.
#pragma once

#include "metricfast/model/side_map.hpp"
#include "metricfast/model/tensors.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A model computes distances after a linear map, distances after another embedding, or the
/// similarity x^T W x'.
enum class ModelKind { linear, embedding, bilinear };

/// The checked content of a model file.
struct ModelContent {
    std::string learner;
    ModelKind kind = ModelKind::linear;
    Index n_features = 0, n_components = 0;
    bool is_double = true;              ///< precision in the file
    std::vector<SideMap<double>> sides; ///< queries, database; or one for both
};

namespace detail {

/// Builds a ModelContent, or throws ModelError.
class ModelReader {
  public:
    explicit ModelReader(const TensorFile &file)
        : file_(file), state_(file.text("state")), learner_(learner_of(Json::parse(state_))),
          fitted_(learner_.at("fitted")) {}

    ModelContent read() {
        const auto name = learner_.find("class");
        content_.learner = name ? name->string() : file_.text("learner");
        content_.n_features = static_cast<Index>(fitted_.at("n_features_in_").integer());
        if (fitted_.find("parameters_")) {
            content_.kind = ModelKind::embedding;
            read_embedding();
        } else if (fitted_.find("bilinear_")) {
            content_.kind = ModelKind::bilinear;
            RowMatrix<double> W = matrix(fitted_.at("bilinear_"), true);
            require_model(W.rows() == W.cols(), "bilinear_ is not square");
            content_.sides.resize(2);
            content_.sides[0].layers.push_back({W.transpose(), {}});
        } else {
            content_.sides.resize(1);
            content_.sides[0].layers.push_back({matrix(fitted_.at("components_"), true), {}});
        }
        check_widths();
        for (auto scaler = scalers_.rbegin(); scaler != scalers_.rend(); ++scaler)
            scale(*scaler);
        return std::move(content_);
    }

  private:
    static constexpr std::size_t most_copies = 3; ///< of an array: the mean is read for each side
    static constexpr const char *foreign = "parameters_ do not belong to embedding_";

    /// The learner, which may be the last step of a pipeline; scalers before it go to scalers_.
    Json learner_of(const Json &state) {
        const auto steps = state.find("steps");
        if (!steps)
            return state;
        for (const Json &step : steps->items()) {
            const std::vector<Json> both = step.items();
            require_model(both.size() == 2, "a step of a pipeline must be a name and its state");
            const std::string name = both[1].at("class").string();
            if (name.rfind("sklearn.", 0) != 0)
                return both[1];
            require_model(name == "sklearn.StandardScaler",
                          "it has a step of unknown kind: " + name);
            scalers_.push_back(both[1].at("fitted"));
        }
        throw ModelError("it has no learner");
    }

    /// Merges a scaler into the maps: layers((x - a) / b - mean) equals layers'(x - (a + b mean)),
    /// where the first weights are divided by b.
    void scale(const Json &scaler) {
        const auto size = static_cast<std::size_t>(content_.n_features);
        const auto values = [&](const char *name, double otherwise) {
            const Json given = scaler.at(name);
            return given.is_object() ? vector(given) : std::vector<double>(size, otherwise);
        };
        const std::vector<double> a = values("mean_", 0), b = values("scale_", 1);
        require_model(a.size() == size && b.size() == size &&
                          std::all_of(b.begin(), b.end(), [](double each) { return each > 0; }),
                      "its scaler does not fit n_features_in_");
        for (SideMap<double> &side : content_.sides) {
            require_model(side.mean.empty() || side.mean.size() == size,
                          "its scaler does not fit its database");
            side.mean.resize(size);
            for (std::size_t j = 0; j < size; ++j)
                side.mean[j] = a[j] + b[j] * side.mean[j];
            const Eigen::Map<const Eigen::Array<double, 1, Eigen::Dynamic>> spread(
                b.data(), content_.n_features);
            const Index n_waves = side.waves ? side.waves->frequencies.rows() : 0;
            if (n_waves > 0)
                side.waves->frequencies.array().colwise() /= spread.head(n_waves).transpose();
            if (!side.layers.empty()) {
                auto rest = side.layers[0].weight.rightCols(content_.n_features - n_waves).array();
                rest.rowwise() /= spread.tail(content_.n_features - n_waves);
                if (content_.kind == ModelKind::bilinear) // also scale the other side
                    side.layers[0].weight.array().colwise() /= spread.transpose();
            } else if (content_.kind == ModelKind::embedding) {
                side.layers.push_back({spread.inverse().matrix().asDiagonal(), {}});
            }
        }
    }

    static void require_model(bool holds, const std::string &message) {
        if (!holds)
            throw ModelError(message);
    }

    const Tensor &tensor(const Json &reference) const {
        return file_.tensor(reference.at("tensor").string());
    }

    template <class T> static void copy(const Tensor &from, double *to, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) {
            T value;
            std::memcpy(&value, from.bytes.data() + i * sizeof(T), sizeof(T));
            to[i] = static_cast<double>(value);
            require_model(std::isfinite(value), "its arrays must be finite");
        }
    }

    /// Throws if a file refers to the same arrays too often: a small file could otherwise exhaust
    /// memory.
    void count(const Tensor &from) {
        copied_ += from.bytes.size();
        require_model(copied_ <= most_copies * file_.n_bytes(),
                      "its parameters name the same arrays too often");
    }

    /// \param decides true if the model gets the precision of this array.
    RowMatrix<double> matrix(const Json &reference, bool decides, std::size_t axes = 2) {
        const Tensor &from = tensor(reference);
        const bool is_double = from.dtype == "F64";
        require_model(is_double || from.dtype == "F32",
                      "its maps must be of float32 or float64, got " + from.dtype);
        require_model(from.shape.size() == axes && !from.bytes.empty(),
                      "its maps have the wrong number of axes, or are empty");
        count(from);
        RowMatrix<double> values(axes == 2 ? from.shape[0] : 1, from.shape.back());
        const auto size = static_cast<std::size_t>(values.size());
        if (is_double)
            copy<double>(from, values.data(), size);
        else
            copy<float>(from, values.data(), size);
        if (decides)
            content_.is_double = is_double;
        return values;
    }

    std::vector<double> vector(const Json &reference) {
        const RowMatrix<double> row = matrix(reference, false, 1);
        return {row.data(), row.data() + row.size()};
    }

    /// The items of a list or a tuple.
    static std::vector<Json> items(const Json &sequence) {
        const auto found = sequence.find("tuple");
        return (found ? *found : sequence.at("list")).items();
    }

    void read_embedding() {
        const std::vector<Json> parameters = items(fitted_.at("parameters_"));
        const auto [name, settings] = choice(fitted_.at("embedding_"));
        if (name != "embeddings.Asymmetric") {
            content_.sides.push_back(side(name, settings, parameters));
        } else {
            const auto query = choice(settings.at("query"));
            const auto database = choice(settings.at("database"));
            const std::size_t first = n_parameters(query.first, query.second);
            require_model(first <= parameters.size(), foreign);
            const auto split = parameters.begin() + static_cast<std::ptrdiff_t>(first);
            has_two_maps_ = true;
            content_.sides.push_back(side(query.first, query.second, {parameters.begin(), split}));
            content_.sides.push_back(
                side(database.first, database.second, {split, parameters.end()}));
        }
        const auto of_queries = fitted_.find("mean_query_");
        if (of_queries && content_.sides.size() == 1) // one map, two means
            content_.sides.push_back(content_.sides[0]);
        for (SideMap<double> &side : content_.sides)
            side.mean = vector(fitted_.at("mean_"));
        if (of_queries)
            content_.sides[0].mean = vector(*of_queries);
    }

    /// An embedding's name, and its parameters.
    static std::pair<std::string, Json> choice(const Json &value) {
        const std::vector<Json> both = value.at("choice").items();
        require_model(both.size() == 2, "an embedding must be a name and its parameters");
        return {both[0].string(), both[1]};
    }

    /// The number of arrays of an embedding.
    std::size_t n_parameters(const std::string &name, const Json &settings) const {
        if (name == "embeddings.Linear" || name == "embeddings.Periodic")
            return name == "embeddings.Linear" ? 1 : 4;
        if (name == "embeddings.Identity")
            return 0;
        const Json sizes = settings.at("hidden_layer_sizes");
        if (!sizes.find("tensor"))
            return 2 * (items(sizes).size() + 1);
        const std::vector<Index> &shape = tensor(sizes).shape;
        require_model(shape.size() == 1, "hidden_layer_sizes must be a sequence");
        return 2 * (static_cast<std::size_t>(shape[0]) + 1);
    }

    SideMap<double> side(const std::string &name, const Json &settings,
                         const std::vector<Json> &parameters) {
        SideMap<double> map;
        map.normalize = settings.at("normalize").boolean();
        const std::size_t n = parameters.size();
        if (name == "embeddings.Linear") {
            require_model(n == 1, foreign);
            map.layers.push_back({matrix(parameters[0], true), {}});
        } else if (name == "embeddings.Periodic") {
            require_model(n == 4, foreign);
            map.waves = {matrix(parameters[0], true), matrix(parameters[1], true),
                         vector(parameters[2])};
            map.layers.push_back({matrix(parameters[3], true), {}});
        } else if (name == "embeddings.Identity") {
            require_model(n == 0, foreign);
        } else {
            require_model(name == "embeddings.MLP", "it has an embedding of unknown kind: " + name);
            require_model(n > 0 && n % 2 == 0, foreign);
            const std::string f = settings.at("activation").string();
            require_model(f == "relu" || f == "tanh" || f == "identity",
                          "it has an activation of unknown kind: " + f);
            map.activation = f == "relu"   ? Activation::relu
                             : f == "tanh" ? Activation::tanh
                                           : Activation::identity;
            for (std::size_t i = 0; i < n; i += 2)
                map.layers.push_back({matrix(parameters[i], true), vector(parameters[i + 1])});
        }
        return map;
    }

    void check_widths() {
        content_.n_components = content_.n_features;
        for (const SideMap<double> &side : content_.sides) // equal for all sides with layers
            if (!side.layers.empty())
                content_.n_components = side.layers.back().weight.rows();
        for (const SideMap<double> &side : content_.sides) {
            // Only with two maps, the database may have other features than the queries.
            const bool separate = &side != content_.sides.data() && has_two_maps_;
            Index width = content_.n_features;
            if (separate && !side.mean.empty())
                width = static_cast<Index>(side.mean.size());
            require_model(side.mean.empty() || static_cast<Index>(side.mean.size()) == width,
                          "mean_ must have n_features_in_ values");
            if (const auto &waves = side.waves) {
                require_model(waves->frequencies.rows() <= width &&
                                  waves->mix.cols() == 2 * waves->frequencies.cols() &&
                                  waves->mix.rows() == static_cast<Index>(waves->shift.size()),
                              "its periodic features do not fit n_features_in_, or each other");
                width = waves->width(width);
            }
            for (const auto &layer : side.layers) {
                require_model(layer.weight.cols() == width,
                              "its maps do not fit n_features_in_, or each other");
                width = layer.weight.rows();
                require_model(layer.bias.empty() ||
                                  layer.bias.size() == static_cast<std::size_t>(width),
                              "its biases do not fit its weights");
            }
            require_model(width == content_.n_components, "its two maps differ in n_components");
        }
    }

    const TensorFile &file_;
    const std::string state_;
    std::vector<Json> scalers_; ///< in the order of the pipeline
    const Json learner_, fitted_;
    ModelContent content_;
    bool has_two_maps_ = false;
    std::size_t copied_ = 0; ///< bytes of copied arrays
};

} // namespace detail

/// Reads the content of a file; throws ModelError unless it is a complete model.
inline ModelContent read_model(const TensorFile &file) {
    constexpr const char *version = "1"; // the supported file version
    if (file.text("format") != "metricfast")
        throw ModelError("it is a safetensors file, but not a model of metricfast");
    if (const std::string found = file.text("format_version"); found != version)
        throw ModelError("it has format version " + found + ", this metricfast reads " + version);
    file.check_digest();
    return detail::ModelReader(file).read();
}

METRICFAST_NAMESPACE_END
