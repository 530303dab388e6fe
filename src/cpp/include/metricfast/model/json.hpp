/// A JSON reader for untrusted input, without copies.
#pragma once

#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metricfast/core/config.hpp"
#include "metricfast/model/types.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Parses a text once, and throws if it is not JSON (RFC 8259).
class JsonScanner {
  public:
    explicit JsonScanner(std::string_view text) : text_(text) {}

    std::size_t at = 0;

    /// Returns the next non-white-space character; 0 at the end.
    char next() {
        while (at < text_.size() &&
               (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\r' || text_[at] == '\t'))
            ++at;
        return peek();
    }

    bool consume(char c) {
        const bool found = next() == c && at < text_.size();
        at += found ? 1 : 0;
        return found;
    }

    void expect(char c) {
        if (!consume(c))
            fail();
    }

    void value(int depth = 0) {
        if (depth > deepest)
            throw ModelError("JSON is nested too deeply");
        const char c = next();
        if (c == '{')
            each('}', [&] {
                string(nullptr);
                expect(':');
                value(depth + 1);
            });
        else if (c == '[')
            each(']', [&] { value(depth + 1); });
        else if (c == '"')
            string(nullptr);
        else if (c == '-' || digit(c))
            number();
        else if (!(word("true") || word("false") || word("null")))
            fail();
    }

    /// Parses an opening bracket, items between commas by `f`, and the closing bracket.
    template <class F> void each(char close, F &&f) {
        ++at;
        if (consume(close))
            return;
        do {
            next();
            f();
        } while (consume(','));
        expect(close);
    }

    /// \param out null, or the decoded text is appended to it.
    void string(std::string *out) {
        expect('"');
        while (peek() != '"') {
            const auto c = static_cast<unsigned char>(peek());
            if (c < 0x20)
                fail(); // also at the end
            if (c == '\\')
                escaped(out);
            else
                character(c, out);
        }
        ++at;
    }

    std::string_view since(std::size_t first) const { return text_.substr(first, at - first); }

    [[noreturn]] void fail() const {
        throw ModelError("JSON is not well-formed at byte " + std::to_string(at));
    }

  private:
    static constexpr int deepest = 200;

    static bool digit(char c) { return c >= '0' && c <= '9'; }
    char peek() const { return at < text_.size() ? text_[at] : '\0'; }

    bool word(std::string_view w) {
        const bool found = text_.substr(at, w.size()) == w;
        at += found ? w.size() : 0;
        return found;
    }

    void digits() {
        if (!digit(peek()))
            fail();
        while (digit(peek()))
            ++at;
    }

    void number() {
        at += peek() == '-' ? 1 : 0;
        if (peek() == '0')
            ++at;
        else
            digits();
        if (peek() == '.') {
            ++at;
            digits();
        }
        if (peek() == 'e' || peek() == 'E') {
            ++at;
            at += peek() == '+' || peek() == '-' ? 1 : 0;
            digits();
        }
    }

    /// Reads one character in UTF-8.
    void character(unsigned char first, std::string *out) {
        const int more = first < 0x80                    ? 0
                         : first >= 0xc2 && first < 0xe0 ? 1
                         : first >= 0xe0 && first < 0xf0 ? 2
                         : first >= 0xf0 && first < 0xf5 ? 3
                                                         : -1;
        if (more < 0 || text_.size() - at <= static_cast<std::size_t>(more))
            fail();
        std::uint32_t code = more == 0 ? first : first & (0x3fu >> more);
        for (int i = 1; i <= more; ++i) {
            const auto c = static_cast<unsigned char>(text_[at + static_cast<std::size_t>(i)]);
            if ((c & 0xc0) != 0x80)
                fail();
            code = code << 6 | (c & 0x3f);
        }
        const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            fail();
        if (out != nullptr)
            out->append(text_, at, static_cast<std::size_t>(more) + 1);
        at += static_cast<std::size_t>(more) + 1;
    }

    std::uint32_t four_digits() {
        std::uint32_t code = 0;
        for (int i = 0; i < 4; ++i, ++at) {
            const char c = peek();
            if (!std::isxdigit(static_cast<unsigned char>(c)))
                fail();
            code =
                code << 4 | static_cast<std::uint32_t>(digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        return code;
    }

    void escaped(std::string *out) {
        ++at;
        constexpr std::string_view names = "\"\\/bfnrt", stand_for = "\"\\/\b\f\n\r\t";
        const char c = peek();
        ++at;
        if (const std::size_t i = names.find(c); c != '\0' && i != names.npos) {
            if (out != nullptr)
                out->push_back(stand_for[i]);
            return;
        }
        if (c != 'u')
            fail();
        std::uint32_t code = four_digits();
        if (code >= 0xd800 && code < 0xdc00) { // first half of a surrogate pair
            if (!word("\\u"))
                fail();
            const std::uint32_t low = four_digits();
            if (low < 0xdc00 || low >= 0xe000)
                fail();
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xdc00 && code < 0xe000) {
            fail();
        }
        if (out == nullptr)
            return;
        const auto put = [&](std::uint32_t byte) { out->push_back(static_cast<char>(byte)); };
        if (code < 0x80) {
            put(code);
        } else {
            const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
            put((0xff00u >> (more + 1) & 0xffu) | code >> (6 * more));
            for (int i = more - 1; i >= 0; --i)
                put(0x80 | (code >> (6 * i) & 0x3f));
        }
    }

    std::string_view text_;
};

} // namespace detail

/// A JSON value. Refers to its text, which was validated by the parser. Access to missing values
/// throws ModelError. Nothing is allocated, so a malicious file cannot exhaust memory.
class Json {
  public:
    static Json parse(std::string_view text) {
        detail::JsonScanner scanner(text);
        scanner.value();
        if (scanner.next() != '\0' || scanner.at != text.size())
            scanner.fail();
        return Json(text);
    }

    bool is_object() const { return starts('{'); }
    bool is_array() const { return starts('['); }
    bool is_string() const { return starts('"'); }

    /// Calls f(name, value) for each member of an object, in the order of the text.
    template <class F> void each_member(F &&f) const {
        demand(is_object(), "an object");
        detail::JsonScanner scanner(text_);
        scanner.each('}', [&] {
            std::string name;
            scanner.string(&name);
            scanner.expect(':');
            f(name, taken(scanner));
        });
    }

    std::vector<Json> items() const {
        demand(is_array(), "an array");
        std::vector<Json> found;
        detail::JsonScanner scanner(text_);
        scanner.each(']', [&] { found.push_back(taken(scanner)); });
        return found;
    }

    std::optional<Json> find(std::string_view name) const {
        std::optional<Json> found;
        each_member([&](const std::string &each, Json value) {
            if (each == name) {
                if (found)
                    throw ModelError("JSON says '" + each + "' twice");
                found = value;
            }
        });
        return found;
    }

    Json at(std::string_view name) const {
        if (const auto found = find(name))
            return *found;
        throw ModelError("JSON does not say '" + std::string(name) + "'");
    }

    std::string string() const {
        demand(is_string(), "a string");
        std::string out;
        detail::JsonScanner(text_).string(&out);
        return out;
    }

    bool boolean() const {
        demand(text_ == "true" || text_ == "false", "true or false");
        return text_ == "true";
    }

    std::int64_t integer() const {
        std::int64_t number = 0;
        const char *const end = text_.data() + text_.size();
        const auto [stop, error] = std::from_chars(text_.data(), end, number);
        demand(error == std::errc() && stop == end, "an integer of 64 bits");
        return number;
    }

  private:
    explicit Json(std::string_view text) : text_(text) {
        const std::size_t first = text.find_first_not_of(" \n\r\t");
        text_ = text.substr(first, text.find_last_not_of(" \n\r\t") - first + 1);
    }

    static Json taken(detail::JsonScanner &scanner) {
        scanner.next();
        const std::size_t first = scanner.at;
        scanner.value();
        return Json(scanner.since(first));
    }

    bool starts(char c) const { return text_.front() == c; }

    void demand(bool is, const char *what) const {
        if (!is)
            throw ModelError("JSON has '" + std::string(text_.substr(0, 40)) + "' in place of " +
                             what);
    }

    std::string_view text_;
};

METRICFAST_NAMESPACE_END
