/// Files of arrays and texts in the format safetensors, with metricfast's digest.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>

#include "metricfast/core/types.hpp"
#include "metricfast/model/json.hpp"
#include "metricfast/model/sha256.hpp"

METRICFAST_NAMESPACE_BEGIN

/// An array of a file: its values are little-endian and row-major.
struct Tensor {
    std::string dtype; ///< name in safetensors: F32, F64, I64, ...
    std::vector<Index> shape;
    std::string_view bytes;
};

/// The content of a safetensors file, from any bytes; throws ModelError if they are invalid.
class TensorFile {
  public:
    /// \throws std::filesystem::filesystem_error if the file cannot be read.
    static TensorFile load(const std::filesystem::path &path) {
        const auto size = std::filesystem::file_size(path);
        std::ifstream file(path, std::ios::binary);
        std::string content;
        if (size <= content.max_size() && file) {
            content.resize(static_cast<std::size_t>(size));
            file.read(content.data(), static_cast<std::streamsize>(size));
        }
        if (!file)
            throw std::filesystem::filesystem_error("cannot read", path,
                                                    std::make_error_code(std::errc::io_error));
        return TensorFile(std::move(content));
    }

    explicit TensorFile(std::string content)
        : content_(std::make_unique<const std::string>(std::move(content))) {
        const std::string_view all = *content_;
        if (all.size() < prefix)
            throw ModelError("it is too short for a safetensors file");
        std::uint64_t size = 0;
        for (int i = 7; i >= 0; --i)
            size = size << 8 | static_cast<unsigned char>(all[static_cast<std::size_t>(i)]);
        if (size > all.size() - prefix)
            throw ModelError("its header is longer than the file");
        data_ = all.substr(prefix + static_cast<std::size_t>(size));
        Json::parse(all.substr(prefix, static_cast<std::size_t>(size)))
            .each_member([&](const std::string &name, const Json &entry) {
                if (name == "__metadata__")
                    entry.each_member([&](const std::string &key, const Json &text) {
                        once(metadata_.emplace(key, text.string()).second, key);
                    });
                else
                    once(tensors_.emplace(name, tensor(entry)).second, name);
            });
        check_places();
    }

    const std::map<std::string, Tensor> &tensors() const { return tensors_; }

    std::size_t n_bytes() const { return content_->size(); }

    /// The text with the given name, or an empty string.
    std::string text(const std::string &name) const {
        const auto found = metadata_.find(name);
        return found == metadata_.end() ? "" : found->second;
    }

    const Tensor &tensor(const std::string &name) const {
        const auto found = tensors_.find(name);
        if (found == tensors_.end())
            throw ModelError("it has no array '" + name + "'");
        return found->second;
    }

    /// Throws unless the digest of all bytes matches.
    void check_digest() const {
        constexpr std::string_view place = "\"checksum\":\""; // in texts, quotes are escaped
        const std::string blank(64, '0');
        const std::string_view all = *content_;
        const std::size_t at = all.find(place) + place.size();
        bool right = at >= place.size() && all.size() - at >= blank.size();
        if (right) {
            Sha256 digest;
            digest.add(all.substr(0, at));
            digest.add(blank);
            digest.add(all.substr(at + blank.size()));
            right = digest.hex() == text("checksum");
        }
        if (!right)
            throw ModelError("it is damaged: its checksum does not match its content");
    }

  private:
    static constexpr std::size_t prefix = 8;

    static void once(bool is_new, const std::string &name) {
        if (!is_new)
            throw ModelError("its header says '" + name + "' twice");
    }

    static std::uint64_t item_size(const std::string &dtype) {
        static const std::map<std::string, std::uint64_t> sizes = {
            {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"U16", 2}, {"I16", 2}, {"F16", 2}, {"BF16", 2},
            {"U32", 4},  {"I32", 4}, {"F32", 4}, {"U64", 8}, {"I64", 8}, {"F64", 8}};
        const auto found = sizes.find(dtype);
        if (found == sizes.end())
            throw ModelError("it has an array of unknown dtype '" + dtype + "'");
        return found->second;
    }

    Tensor tensor(const Json &entry) const {
        Tensor found{entry.at("dtype").string(), {}, {}};
        std::uint64_t bytes = item_size(found.dtype);
        for (const Json &length : entry.at("shape").items()) {
            const std::int64_t n = length.integer();
            if (n < 0 || (n > 0 && bytes > most / static_cast<std::uint64_t>(n)))
                throw ModelError("it has an array of impossible shape");
            bytes *= static_cast<std::uint64_t>(n);
            found.shape.push_back(static_cast<Index>(n));
        }
        const std::vector<Json> range = entry.at("data_offsets").items();
        if (range.size() != 2)
            throw ModelError("it has an array without a begin and an end");
        const std::int64_t begin = range[0].integer(), end = range[1].integer();
        const bool within =
            0 <= begin && begin <= end && static_cast<std::uint64_t>(end) <= data_.size();
        if (!within || static_cast<std::uint64_t>(end - begin) != bytes)
            throw ModelError("it has an array whose place does not fit its shape or the file");
        found.bytes =
            data_.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
        return found;
    }

    /// Throws unless arrays are contiguous, without gap, overlap, or trailing bytes.
    void check_places() const {
        std::vector<std::string_view> places;
        for (const auto &[name, tensor] : tensors_)
            places.push_back(tensor.bytes);
        std::sort(places.begin(), places.end(), [](std::string_view a, std::string_view b) {
            return std::make_pair(a.data(), a.size()) < std::make_pair(b.data(), b.size());
        });
        const char *at = data_.data();
        for (const std::string_view place : places) {
            if (place.data() != at)
                throw ModelError("its arrays overlap, or have a gap between them");
            at += place.size();
        }
        if (at != data_.data() + data_.size())
            throw ModelError("it has bytes that belong to no array");
    }

    static constexpr std::uint64_t most = std::uint64_t(1) << 62;

    std::unique_ptr<const std::string> content_; ///< its address survives moves of this object
    std::string_view data_;
    std::map<std::string, std::string> metadata_;
    std::map<std::string, Tensor> tensors_;
};

METRICFAST_NAMESPACE_END
