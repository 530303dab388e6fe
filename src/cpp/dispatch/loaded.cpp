#include "dispatch/loaded.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "dispatch/supported.hpp"

namespace metricfast {

namespace {

// From slowest to fastest. "base" is the only level of processors other than x86-64.
const std::vector<std::string> all_levels{"base", "v2", "v3", "v4"};

bool contains(const std::vector<std::string> &names, const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string joined(const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names)
        text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

/// Returns the folder of the levels, relative to the file that contains this code.
std::filesystem::path folder() {
#ifdef _WIN32
    HMODULE self = nullptr;
    wchar_t path[32768] = L"";
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                           GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                       reinterpret_cast<LPCWSTR>(&loaded), &self);
    GetModuleFileNameW(self, path, 32768);
    const std::filesystem::path file(path);
#else
    Dl_info self{};
    dladdr(reinterpret_cast<const void *>(&loaded), &self);
    const std::filesystem::path file(self.dli_fname != nullptr ? self.dli_fname : "");
#endif
    return file.parent_path() / METRICFAST_LEVEL_FOLDER;
}

std::filesystem::path file_of(const std::string &level) {
    return folder() / (METRICFAST_LEVEL_PREFIX + level + METRICFAST_LEVEL_SUFFIX);
}

std::vector<std::string> built_levels() {
    std::vector<std::string> found;
    std::error_code ignored;
    for (const std::string &level : all_levels)
        if (std::filesystem::exists(file_of(level), ignored))
            found.push_back(level);
    return found;
}

/// Loads the library of a level. On failure it returns null and sets `error`.
const Level *open(const std::string &name, std::string &error) {
    const std::filesystem::path file = file_of(name);
    using Symbol = const Level *(*)();
#ifdef _WIN32
    const HMODULE library = LoadLibraryW(file.c_str());
    const auto symbol = library == nullptr ? nullptr
                                           : reinterpret_cast<Symbol>(reinterpret_cast<void *>(
                                                 GetProcAddress(library, METRICFAST_LEVEL_SYMBOL)));
    if (symbol == nullptr)
        error = "cannot load " + file.string();
#else
    void *const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto symbol = library == nullptr
                            ? nullptr
                            : reinterpret_cast<Symbol>(dlsym(library, METRICFAST_LEVEL_SYMBOL));
    if (symbol == nullptr) {
        const char *const why = dlerror();
        error = why != nullptr ? why : "cannot load " + file.string();
    }
#endif
    const Level *const level = symbol == nullptr ? nullptr : symbol();
    if (level != nullptr && std::strcmp(level->kernels.version, METRICFAST_VERSION) != 0) {
        error = file.string() + " has version " + level->kernels.version +
                ", but metricfast has version " METRICFAST_VERSION ": install metricfast again";
        return nullptr;
    }
    return level;
}

/// The error message of an invalid METRICFAST_NUM_THREADS; empty if it is valid.
std::string fault_of_threads() {
    const char *const variable = std::getenv("METRICFAST_NUM_THREADS");
    const std::string text = variable != nullptr ? variable : "";
    const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
    if (text.empty() || (digits && text.find_first_not_of('0') != std::string::npos))
        return "";
    return "METRICFAST_NUM_THREADS must be a positive integer, got '" + text +
           "': set it to the number of threads, or unset it";
}

Loaded load() {
    Loaded result;
    result.error = fault_of_threads();
    if (!result.error.empty())
        return result;
    const std::vector<std::string> available = available_levels();
    const char *const variable = std::getenv("METRICFAST_ISA");
    const std::string wanted = variable != nullptr ? variable : "";
    if (wanted.empty() && available.empty())
        result.error = "metricfast was built for " + joined(built_levels()) +
                       ", none of which this machine supports";
    else if (!wanted.empty() && !contains(available, wanted)) {
        const char *const reason =
            !contains(all_levels, wanted)       ? "which is not an instruction set level"
            : !contains(built_levels(), wanted) ? "which this copy of metricfast was not built for"
                                                : "which this processor or operating system does "
                                                  "not support";
        result.error =
            "METRICFAST_ISA is '" + wanted + "', " + reason + "; available: " + joined(available);
    } else {
        result.name = wanted.empty() ? available.back() : wanted;
        result.level = open(result.name, result.error);
    }
    return result;
}

} // namespace

std::vector<std::string> available_levels() {
    const std::vector<std::string> supported = supported_levels();
    std::vector<std::string> levels = built_levels();
    levels.erase(std::remove_if(levels.begin(), levels.end(),
                                [&](const std::string &level) {
                                    return level != "base" && !contains(supported, level);
                                }),
                 levels.end());
    return levels;
}

const Loaded &loaded() {
    static const Loaded result = load();
    return result;
}

} // namespace metricfast
