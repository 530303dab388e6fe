/// A test program in a few lines: TEST(name) { CHECK(...); CHECK_THROWS(...); }, and main.
///
/// A file has its tests in a namespace of its name, since files are compiled as one unit.
#pragma once

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace check {

struct Case {
    const char *file;
    const char *name;
    void (*run)();
};

inline std::vector<Case> &cases() {
    static std::vector<Case> all;
    return all;
}

inline int failures = 0;

inline bool add(const char *file, const char *name, void (*run)()) {
    cases().push_back({file, name, run});
    return true;
}

inline void fail(const char *file, int line, const std::string &what) {
    std::printf("%s:%d: %s\n", file, line, what.c_str());
    ++failures;
}

template <class Exception, class F>
void throws(const char *file, int line, const std::string &part, F f) {
    try {
        f();
    } catch (const Exception &error) {
        if (std::string(error.what()).find(part) == std::string::npos)
            fail(file, line, std::string("message '") + error.what() + "' lacks '" + part + "'");
        return;
    }
    fail(file, line, "nothing was thrown");
}

} // namespace check

#define TEST(name)                                                                                 \
    static void name();                                                                            \
    static const bool name##_is_registered = check::add(__FILE__, #name, name);                    \
    static void name()

#define CHECK(...)                                                                                 \
    do {                                                                                           \
        if (!(__VA_ARGS__))                                                                        \
            check::fail(__FILE__, __LINE__, "not true: " #__VA_ARGS__);                            \
    } while (false)

/// |a - b| <= tolerance; false for NaN.
#define CHECK_NEAR(a, b, tolerance)                                                                \
    do {                                                                                           \
        const double left_ = static_cast<double>(a), right_ = static_cast<double>(b);              \
        if (!(std::abs(left_ - right_) <= (tolerance)))                                            \
            check::fail(__FILE__, __LINE__,                                                        \
                        #a " is " + std::to_string(left_) + ", " #b " is " +                       \
                            std::to_string(right_));                                               \
    } while (false)

/// The expression throws an Exception whose message contains `part`.
#define CHECK_THROWS(Exception, part, ...)                                                         \
    check::throws<Exception>(__FILE__, __LINE__, part, [&] { (void)(__VA_ARGS__); })

/// Runs the tests of the file that is named without its ending, or of all.
int main(int count, char **arguments) {
    const std::string file = count > 1 ? std::string(arguments[1]) + ".cpp" : "";
    bool any = false;
    for (const check::Case &test : check::cases()) {
        if (std::string(test.file).find(file) == std::string::npos)
            continue;
        any = true;
        const int before = check::failures;
        try {
            test.run();
        } catch (const std::exception &error) {
            check::fail(__FILE__, __LINE__, std::string("unexpected exception: ") + error.what());
        }
        std::printf("%s %s\n", check::failures == before ? "passed" : "FAILED", test.name);
    }
    return check::failures == 0 && any ? 0 : 1;
}
