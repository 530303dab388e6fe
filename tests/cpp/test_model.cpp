#include <algorithm>
#include <random>

#include "check.hpp"
#include "points.hpp"

#include "metricfast/model.hpp"
#include "metricfast/search/neighbors.hpp"

namespace test_model {

using namespace metricfast;

namespace {

struct Array {
    std::string name;
    std::vector<Index> shape;
    std::vector<double> values;
    bool is_double = true;
};

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text)
        if (c != '\n')
            out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
}

std::string with_length(const std::string &header, const std::string &data) {
    std::string content;
    for (int i = 0; i < 8; ++i)
        content += static_cast<char>(header.size() >> (8 * i) & 255);
    return content + header + data;
}

/// With the digest that belongs to its content.
std::string sealed(std::string content) {
    const std::string place = "\"checksum\":\"", blank(64, '0');
    const std::size_t at = content.find(place);
    if (at != content.npos && content.size() - at >= place.size() + blank.size()) {
        content.replace(at + place.size(), 64, blank);
        Sha256 digest;
        digest.add(content);
        content.replace(at + place.size(), 64, digest.hex());
    }
    return content;
}

template <class T> std::string bytes_of(const std::vector<double> &values) {
    const std::vector<T> typed(values.begin(), values.end());
    return {reinterpret_cast<const char *>(typed.data()), typed.size() * sizeof(T)};
}

std::string file_of(const std::string &state, const std::vector<Array> &arrays,
                    const std::string &version = "1", const std::string &format = "metricfast") {
    std::string header = "{\"__metadata__\":{\"checksum\":\"" + std::string(64, '0') +
                         "\",\"format\":\"" + format + "\",\"format_version\":\"" + version +
                         "\",\"learner\":\"NCA\",\"state\":" + quoted(state) + "}";
    std::string data;
    for (const Array &array : arrays) {
        const std::size_t begin = data.size();
        data += array.is_double ? bytes_of<double>(array.values) : bytes_of<float>(array.values);
        header += "," + quoted(array.name) + ":{\"dtype\":\"" + (array.is_double ? "F64" : "F32") +
                  "\",\"shape\":[";
        for (std::size_t i = 0; i < array.shape.size(); ++i)
            header += (i > 0 ? "," : "") + std::to_string(array.shape[i]);
        header += "],\"data_offsets\":[" + std::to_string(begin) + "," +
                  std::to_string(data.size()) + "]}";
    }
    return sealed(with_length(header + "}", data));
}

const Array map_array{"components_", {2, 3}, {1, 2, 3, 0, 1, -1}};
const std::string linear_state = R"({"params":{"tol":null},"fitted":{"n_features_in_":3,)"
                                 R"("components_":{"tensor":"components_","order":"F"}}})";

std::string linear_file() { return file_of(linear_state, {map_array}); }

/// Queries by a linear map, database points by a perceptron with unit length.
std::string two_sided_file(bool is_double) {
    const std::string state =
        R"({"params":{},"fitted":{"n_features_in_":2,"embedding_":{"choice":["embeddings.Asymmetric",
        {"query":{"choice":["embeddings.Linear",{"normalize":false}]},"database":{"choice":
        ["embeddings.MLP",{"hidden_layer_sizes":{"tuple":[2]},"activation":"relu","normalize":true}
        ]}}]},"parameters_":{"list":[{"tensor":"a"},{"tensor":"b"},{"tensor":"c"},{"tensor":"d"},
        {"tensor":"e"}]},"mean_":{"tensor":"m"},"mean_query_":{"tensor":"q"}}})";
    return file_of(state, {{"a", {2, 2}, {1, 0, 0, 2}, is_double},
                           {"b", {2, 2}, {1, 0, 0, 1}, is_double},
                           {"c", {2}, {0, 1}, is_double},
                           {"d", {2, 2}, {3, 0, 0, 4}, is_double},
                           {"e", {2}, {0, 0}, is_double},
                           {"m", {2}, {1, 1}, is_double},
                           {"q", {2}, {2, 0}, is_double}});
}

/// Of one number, relu of its cosine and of its sine, and another number as it is.
std::string periodic_file(Index n_shifts = 2) {
    const std::string state =
        R"({"fitted":{"n_features_in_":2,"embedding_":{"choice":["embeddings.Periodic",
        {"normalize":false}]},"parameters_":{"list":[{"tensor":"c"},{"tensor":"A"},{"tensor":"a"},
        {"tensor":"L"}]},"mean_":{"tensor":"m"}}})";
    return file_of(state, {{"c", {1, 1}, {1}},
                           {"A", {2, 2}, {1, 0, 0, 1}},
                           {"a", {n_shifts}, std::vector<double>(n_shifts, 0.0)},
                           {"L", {2, 3}, {1, 2, 0, 0, 0, 3}},
                           {"m", {2}, {0, 0}}});
}

template <class T> RowMatrix<T> points_of(std::initializer_list<std::initializer_list<T>> rows) {
    return RowMatrix<T>(rows);
}

} // namespace

TEST(digests) {
    const auto digest = [](const std::string &text) {
        Sha256 sum;
        sum.add(text);
        return sum.hex();
    };
    CHECK(digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(digest(std::string(1000000, 'a')) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");

    // All lengths about the size of a block, whole and in pieces; hashlib's digest of the digests.
    std::string all;
    for (std::size_t n = 0; n <= 200; ++n) {
        std::string text;
        for (std::size_t i = 0; i < n; ++i)
            text += static_cast<char>(i * 7 + n);
        Sha256 pieces;
        for (std::size_t i = 0; i < n; i += n % 17 + 1)
            pieces.add(std::string_view(text).substr(i, n % 17 + 1));
        all += digest(text);
        CHECK(pieces.hex() == digest(text));
    }
    CHECK(digest(all) == "de444fd33c2915b23d3772a4de9aa249a9206ee2f93688a74e332e160c085f41");

    // Instructions, where the processor has them, and the portable code.
    const auto *const bytes = reinterpret_cast<const unsigned char *>(all.data());
    detail::Sha256State state{}, portable{};
    detail::sha256_blocks(state, bytes, all.size() / 64);
    detail::sha256_portable(portable, bytes, all.size() / 64);
    CHECK(state == portable);
}

TEST(json_is_read_where_it_stands) {
    const std::string text =
        R"( {"a\u0062": [1, -2e3, {"c": "\ud83d\ude00\n\u00e9é"}], "d": true} )";
    const Json json = Json::parse(text);
    const std::vector<Json> items = json.at("ab").items();
    CHECK(items.size() == 3 && items[0].integer() == 1 && json.at("d").boolean());
    CHECK(items[2].at("c").string() == "\xf0\x9f\x98\x80\n\xc3\xa9\xc3\xa9");
    CHECK(!json.find("c") && Json::parse("[]").items().empty());
    CHECK_THROWS(ModelError, "does not say 'e'", json.at("e"));
    CHECK_THROWS(ModelError, "in place of an integer", items[1].integer());
    CHECK_THROWS(ModelError, "in place of an object", items[1].at("x"));
    CHECK_THROWS(ModelError, "says 'a' twice", Json::parse(R"({"a":1,"a":2})").find("a"));
    CHECK_THROWS(ModelError, "in place of an integer",
                 Json::parse("9223372036854775808").integer());
}

TEST(what_is_no_json_is_refused) {
    for (const std::string text : {"",
                                   " ",
                                   "{",
                                   "[1,]",
                                   "{\"a\"}",
                                   "{\"a\":1,}",
                                   "[1 2]",
                                   "01",
                                   "1.",
                                   "1e",
                                   "-",
                                   "+1",
                                   "NaN",
                                   "nul",
                                   "truex",
                                   "\"",
                                   "\"\\x\"",
                                   "\"\\u12g4\"",
                                   "\"\\ud800\"",
                                   "\"\\udc00\"",
                                   "\"\n\"",
                                   "\"\x80\"",
                                   "\"\xc0\x80\"",
                                   "\"\xed\xa0\x80\"",
                                   "\"\xf5\x80\x80\x80\"",
                                   "\"\xe2\x82",
                                   "[] []",
                                   "'a'"})
        CHECK_THROWS(ModelError, "not well-formed", Json::parse(text));
    CHECK_THROWS(ModelError, "not well-formed", Json::parse(std::string("1\0", 2)));
    CHECK_THROWS(ModelError, "nested too deeply", Json::parse(std::string(100000, '[')));
}

TEST(a_linear_model) {
    const Model model = Model::parse(linear_file());
    CHECK(model.learner() == "NCA" && model.kind() == ModelKind::linear && !model.two_sided());
    CHECK(model.n_features() == 3 && model.n_components() == 2 && model.is_double());
    const auto x = points_of<float>({{1, 0, 0}, {0, 1, 2}});
    const auto expected = points_of<float>({{1, 0}, {8, -1}});
    CHECK(model.transform(seen(x)) == expected);
    const auto y = points_of<float>({{-2, 0, 0}, {0, 1, 2}}); // 3 and 0 away, by L: (3, 0)
    RowMatrix<float> scores(1, 2);
    model.pair_score<float>(seen(x), seen(y), {scores.data(), 2});
    CHECK(scores == points_of<float>({{-3, 0}}));
    const auto wrong = points_of<float>({{1, 0}});
    CHECK_THROWS(std::invalid_argument, "must have 3 features, found 2",
                 model.transform(seen(wrong)));
    const auto missing = points_of<double>({{1, NAN, 0}});
    CHECK_THROWS(std::invalid_argument, "NaN", model.transform(seen(missing)));
    const auto large = points_of<double>({{1e308, 1e308, 1e308}});
    CHECK_THROWS(std::invalid_argument, "overflow", model.transform(seen(large)));
}

TEST(a_bilinear_model) {
    const Model model =
        Model::parse(file_of(R"({"fitted":{"n_features_in_":2,"bilinear_":{"tensor":"W"}}})",
                             {{"W", {2, 2}, {1, 2, 3, 4}}}));
    const auto x = points_of<double>({{1, 10}}), y = points_of<double>({{100, 1000}});
    CHECK(model.kind() == ModelKind::bilinear && model.two_sided());
    CHECK(model.transform(seen(x)) == points_of<double>({{31, 42}}));
    CHECK(model.transform(seen(y), ModelSide::database) == y);
    double score = 0;
    model.pair_score<double>(seen(x), seen(y), {&score, 1});
    CHECK(score == 45100);
    CHECK_THROWS(std::invalid_argument, "no distance", ModelDatabase(model, seen(y)));
}

TEST(a_model_of_two_maps_in_either_precision) {
    for (const bool is_double : {false, true}) {
        const Model model = Model::parse(two_sided_file(is_double));
        CHECK(model.is_double() == is_double && model.two_sided());
        const auto x = points_of<double>({{4, -1}});
        CHECK(model.transform(seen(x)) == points_of<double>({{2, -2}}));
        // (3, -2) + (0, 1), rectified: (3, 0), and (9, 0) of length one
        CHECK(model.transform(seen(x), ModelSide::database) == points_of<double>({{1, 0}}));
        const auto far = points_of<double>({{1e200, 1}});
        CHECK(
            model.transform(seen(far), ModelSide::database).isApprox(points_of<double>({{1, 0}})));
    }
}

TEST(a_database_may_have_other_features_than_queries) {
    const std::string state =
        R"({"fitted":{"n_features_in_":2,"embedding_":{"choice":["embeddings.Asymmetric",
        {"query":{"choice":["embeddings.Linear",{"normalize":false}]},"database":{"choice":
        ["embeddings.Linear",{"normalize":false}]}}]},"parameters_":{"list":[{"tensor":"a"},
        {"tensor":"b"}]},"mean_":{"tensor":"m"},"mean_query_":{"tensor":"q"}}})";
    const auto parse = [&](Index n_columns, Index n_means) {
        const auto size = static_cast<std::size_t>(n_columns);
        return Model::parse(file_of(state, {{"a", {1, 2}, {1, 2}},
                                            {"b", {1, n_columns}, std::vector<double>(size, 1.0)},
                                            {"m", {n_means}, std::vector<double>(n_means, 1.0)},
                                            {"q", {2}, {0, 0}}}));
    };
    const Model model = parse(3, 3);
    CHECK(model.n_features() == 2 && model.n_features(ModelSide::database) == 3);
    const auto x = points_of<double>({{1, 1}});
    const auto y = points_of<double>({{1, 2, 3}});
    CHECK(model.transform(seen(x)) == points_of<double>({{3}}));
    CHECK(model.transform(seen(y), ModelSide::database) == points_of<double>({{3}}));
    double score = 1;
    model.pair_score<double>(seen(x), seen(y), {&score, 1});
    CHECK(score == 0);
    CHECK_THROWS(std::invalid_argument, "must have 3 features, found 2",
                 model.transform(seen(x), ModelSide::database));
    CHECK_THROWS(std::invalid_argument, "must have 3 features, found 2",
                 ModelDatabase(model, seen(x)));
    CHECK_THROWS(ModelError, "do not fit", parse(3, 2));
}

TEST(a_model_of_periodic_features) {
    const Model model = Model::parse(periodic_file());
    const auto x = points_of<double>({{0, 5}, {0.25, 1}, {0.5, 0}});
    CHECK(model.transform(seen(x)).isApprox(points_of<double>({{1, 15}, {2, 3}, {0, 0}}), 1e-12));
    const auto far = points_of<double>({{1e300, 0}});
    CHECK_THROWS(ModelError, "periodic features do not fit", Model::parse(periodic_file(3)));
    CHECK_THROWS(std::invalid_argument, "overflow", model.transform(seen(far)));
}

TEST(a_pipeline_is_its_learner_of_scaled_points) {
    const std::string periodic =
        R"("n_features_in_":2,"embedding_":{"choice":["embeddings.Periodic",{"normalize":false}]},
        "parameters_":{"list":[{"tensor":"c"},{"tensor":"A"},{"tensor":"a"},{"tensor":"L"}]},
        "mean_":{"tensor":"m"})";
    const std::vector<Array> arrays = {{"c", {1, 1}, {1}},   {"A", {2, 2}, {1, 0, 0, 1}},
                                       {"a", {2}, {0, 0}},   {"L", {2, 3}, {1, 2, 0, 0, 0, 3}},
                                       {"m", {2}, {.5, 2}},  {"W", {2, 2}, {1, 2, 3, 4}},
                                       {"m3", {1}, {1}},     {"a1", {2}, {1, -3}},
                                       {"b1", {2}, {2, .5}}, {"b2", {2}, {4, 8}}};
    const std::string scalers =
        R"(["s",{"class":"sklearn.StandardScaler","fitted":{"mean_":{"tensor":"a1"},"scale_":
        {"tensor":"b1"}}}],["t",{"class":"sklearn.StandardScaler","fitted":{"mean_":null,"scale_":
        {"tensor":"b2"}}}],)";
    const auto x = points_of<double>({{1, 10}, {-3, 2}}), y = points_of<double>({{0, 7}, {5, 1}});
    const auto scaled = [](const RowMatrix<double> &points) {
        RowMatrix<double> result = points;
        result.col(0) = (points.col(0).array() - 1) / 8;
        result.col(1) = (points.col(1).array() + 3) / 4;
        return result;
    };
    const auto scaled_x = scaled(x), scaled_y = scaled(y);
    for (const std::string &fitted :
         {periodic, std::string(R"("n_features_in_":2,"components_":{"tensor":"W"})"),
          std::string(R"("n_features_in_":2,"bilinear_":{"tensor":"W"})")}) {
        const Model plain = Model::parse(file_of("{\"fitted\":{" + fitted + "}}", arrays));
        const std::string learner = "[\"l\",{\"class\":\"LFDA\",\"fitted\":{" + fitted + "}}]";
        const Model model =
            Model::parse(file_of("{\"steps\":[" + scalers + learner + "]}", arrays));
        CHECK(model.learner() == "LFDA" && model.kind() == plain.kind());
        if (plain.kind() != ModelKind::bilinear)
            CHECK(model.transform(seen(x)).isApprox(plain.transform(seen(scaled_x)), 1e-12));
        RowMatrix<double> scores(1, 2), expected(1, 2);
        model.pair_score<double>(seen(x), seen(y), {scores.data(), 2});
        plain.pair_score<double>(seen(scaled_x), seen(scaled_y), {expected.data(), 2});
        CHECK(scores.isApprox(expected, 1e-12));
    }
    const auto parse = [&](const std::string &steps) {
        return Model::parse(file_of("{\"steps\":[" + steps + "]}", arrays));
    };
    const std::string last = R"(["l",{"class":"LFDA","fitted":{"n_features_in_":2,"components_":
        {"tensor":"W"}}}])";
    CHECK_THROWS(ModelError, "no learner", parse(scalers.substr(0, scalers.size() - 1)));
    CHECK_THROWS(ModelError, "unknown kind: sklearn.PCA",
                 parse(R"(["s",{"class":"sklearn.PCA","fitted":{}}],)" + last));
    CHECK_THROWS(ModelError, "scaler does not fit n_features_in_",
                 parse(R"(["s",{"class":"sklearn.StandardScaler","fitted":{"mean_":null,"scale_":
        {"tensor":"m3"}}}],)" +
                       last));
}

TEST(a_database_under_a_model) {
    const auto points = random_points<float>(300, 2);
    const auto x = random_points<double>(7, 2);
    const Model model = Model::parse(two_sided_file(true));
    const ModelDatabase database(model, seen(points));
    RowMatrix<float> distances(7, 3), expected(7, 3);
    RowMatrix<std::int64_t> indices(7, 3), rows(7, 3);
    DatabaseMemory memory;
    database.search<float>(seen(x), 3, nullptr, view(distances), view(indices), memory);
    const auto q = model.transform(seen(x));
    const auto d = model.transform(seen(points), ModelSide::database);
    kneighbors<float>(seen(q), seen(d), 3, nullptr, false, view(expected), view(rows));
    CHECK(indices == rows && distances == expected);
    Filter first_half;
    std::vector<std::uint8_t> mask(300, 1);
    std::fill(mask.begin() + 150, mask.end(), std::uint8_t(0));
    first_half.rows = mask;
    database.search<float>(seen(x), 3, first_half, view(distances), view(indices), memory);
    kneighbors<float>(seen(q), seen(d).middle_rows(0, 150), 3, nullptr, false, view(expected),
                      view(rows));
    CHECK(indices == rows && distances == expected);
    Filter of_each, of_label;
    std::vector<std::uint8_t> masks;
    for (int i = 0; i < 7; ++i)
        masks.insert(masks.end(), mask.begin(), mask.end());
    of_each.pairs = {masks.data(), 7, 300};
    const std::vector<std::int64_t> labels(mask.begin(), mask.end()), ones(7, 1);
    of_label.labels = labels;
    of_label.query_labels = ones;
    of_label.equal = true;
    for (const Filter &filter : {of_each, of_label}) {
        database.search<float>(seen(x), 3, filter, view(distances), view(indices), memory);
        CHECK(indices == rows && distances == expected);
    }
    of_each.pairs.rows = 6;
    CHECK_THROWS(
        std::invalid_argument, "pairs must have one row per query",
        database.search<float>(seen(x), 3, of_each, view(distances), view(indices), memory));
    const auto wrong = random_points<float>(7, 3);
    CHECK_THROWS(
        std::invalid_argument, "must have 2 features, found 3",
        database.search<float>(seen(wrong), 3, nullptr, view(distances), view(indices), memory));
}

TEST(what_is_no_model_is_refused) {
    const auto parse = [](const std::string &fitted, std::vector<Array> arrays = {map_array}) {
        return Model::parse(file_of("{\"fitted\":{" + fitted + "}}", arrays));
    };
    const std::string width = "\"n_features_in_\":3,",
                      map = "\"components_\":{\"tensor\":\"components_\"}";
    CHECK_THROWS(ModelError, "format version 2, this metricfast reads 1",
                 Model::parse(file_of(linear_state, {map_array}, "2")));
    CHECK_THROWS(ModelError, "not a model",
                 Model::parse(file_of(linear_state, {map_array}, "1", "pt")));
    CHECK_THROWS(ModelError, "not well-formed", Model::parse(file_of("{", {map_array})));
    CHECK_THROWS(ModelError, "nested", Model::parse(file_of(std::string(9999, '['), {map_array})));
    CHECK_THROWS(ModelError, "does not say 'n_features_in_'", parse(map));
    CHECK_THROWS(ModelError, "does not say 'components_'", parse("\"n_features_in_\":3"));
    CHECK_THROWS(ModelError, "no array 'x'", parse(width + R"("components_":{"tensor":"x"})"));
    CHECK_THROWS(ModelError, "do not fit", parse("\"n_features_in_\":4," + map));
    CHECK_THROWS(ModelError, "axes",
                 parse(width + map, {{"components_", {6}, {1, 2, 3, 4, 5, 6}}}));
    CHECK_THROWS(ModelError, "empty", parse(width + map, {{"components_", {0, 3}, {}}}));
    CHECK_THROWS(ModelError, "finite", parse(width + map, {{"components_", {1, 3}, {1, NAN, 3}}}));
    std::string other = linear_file();
    other.replace(other.find("F64"), 3, "I64");
    CHECK_THROWS(ModelError, "float32 or float64, got I64", Model::parse(sealed(other)));
    CHECK_THROWS(std::filesystem::filesystem_error, "none.safetensors",
                 Model::load("none.safetensors"));
    CHECK_THROWS(std::filesystem::filesystem_error, "", Model::load("."));
}

TEST(arrays_that_are_named_again_and_again_are_refused) {
    // Two megabytes that would become ten gigabytes.
    const Index width = 256;
    std::string list;
    for (int layer = 0; layer < 20000; ++layer)
        list += std::string(layer > 0 ? "," : "") + R"({"tensor":"W"},{"tensor":"b"})";
    const std::string state =
        R"({"fitted":{"n_features_in_":256,"embedding_":{"choice":["embeddings.MLP",
        {"hidden_layer_sizes":{"tuple":[]},"activation":"relu","normalize":false}]},
        "parameters_":{"list":[)" +
        list + R"(]},"mean_":{"tensor":"b"}}})";
    const std::vector<double> weight(static_cast<std::size_t>(width * width), 1.0);
    const std::vector<double> bias(static_cast<std::size_t>(width), 0.0);
    const std::string content =
        file_of(state, {{"W", {width, width}, weight}, {"b", {width}, bias}});
    CHECK_THROWS(ModelError, "name the same arrays too often", Model::parse(content));
}

TEST(containers_that_lie_are_refused) {
    const auto array = [](const char *shape, const char *offsets, const char *dtype = "F64") {
        return std::string("{\"a\":{\"dtype\":\"") + dtype + "\",\"shape\":" + shape +
               ",\"data_offsets\":" + offsets + "}";
    };
    const auto read = [](const std::string &header, std::size_t size = 16) {
        return TensorFile(with_length(header, std::string(size, '\0')));
    };
    CHECK(read(array("[2]", "[0,16]") + "}").tensors().size() == 1);
    CHECK_THROWS(ModelError, "too short", TensorFile("abc"));
    CHECK_THROWS(ModelError, "longer than the file", TensorFile(std::string(64, '\xff')));
    for (const auto &lie :
         std::vector<std::pair<const char *, const char *>>{{"[2]", "[0,24]"},
                                                            {"[3]", "[0,16]"},
                                                            {"[2]", "[8,0]"},
                                                            {"[2]", "[-8,8]"},
                                                            {"[0]", "[99,99]"},
                                                            {"[2]", "[0,9223372036854775807]"}})
        CHECK_THROWS(ModelError, "does not fit", read(array(lie.first, lie.second) + "}"));
    for (const char *shape : {"[-1]", "[4294967296,4294967296]", "[9223372036854775807]"})
        CHECK_THROWS(ModelError, "impossible shape", read(array(shape, "[0,16]") + "}"));
    CHECK_THROWS(ModelError, "in place of an integer", read(array("[2.0]", "[0,16]") + "}"));
    CHECK_THROWS(ModelError, "begin and an end", read(array("[2]", "[0,8,16]") + "}"));
    CHECK_THROWS(ModelError, "unknown dtype 'F128'", read(array("[2]", "[0,16]", "F128") + "}"));
    CHECK_THROWS(ModelError, "belong to no array", read(array("[1]", "[0,8]") + "}"));
    CHECK_THROWS(ModelError, "gap", read(array("[1]", "[8,16]") + "}"));
    const std::string second = ",\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[4,12]}}";
    CHECK_THROWS(ModelError, "overlap", read(array("[1]", "[0,8]") + second, 12));
    CHECK_THROWS(ModelError, "'a' twice",
                 read(array("[0]", "[0,0]") + "," + array("[2]", "[0,16]").substr(1) + "}"));
}

TEST(every_change_of_a_file_is_refused) {
    const std::string content = two_sided_file(false);
    for (std::size_t size = 0; size < content.size(); ++size)
        CHECK_THROWS(ModelError, "", Model::parse(content.substr(0, size)));
    for (std::size_t i = 0; i < content.size(); ++i) {
        std::string changed = content;
        changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
        CHECK_THROWS(ModelError, "", Model::parse(changed));
    }
}

TEST(forged_files_are_models_or_refused) {
    std::mt19937 random(0);
    const std::string tokens = "{}[]\":,\\0129.eE-tfnu\x80\xff";
    const auto x = random_points<double>(3, 2);
    int accepted = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string content = round % 3 == 0   ? two_sided_file(true)
                              : round % 3 == 1 ? periodic_file()
                                               : linear_file();
        for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
            const std::size_t at = random() % content.size();
            switch (random() % 4) {
            case 0:
                content[at] = tokens[random() % tokens.size()];
                break;
            case 1:
                content.erase(at, 1 + random() % 9);
                break;
            case 2:
                content.insert(at, content, random() % content.size(), random() % 9);
                break;
            default:
                content[at] = static_cast<char>(random());
            }
            if (content.empty())
                break;
        }
        try {
            const Model model = Model::parse(sealed(content));
            ++accepted;
            if (model.n_features() == 2 && model.n_components() < 100)
                model.transform(seen(x), ModelSide::database);
        } catch (const ModelError &) {
        } catch (const std::invalid_argument &) { // points that overflow
        }
    }
    CHECK(accepted > 100);
}

} // namespace test_model
