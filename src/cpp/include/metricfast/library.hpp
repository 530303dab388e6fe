/// Declarations of the compiled library. They do not need Eigen and compile quickly.
///
/// Kernels are compiled once for each instruction set level. The first call of `library()` loads
/// the best level that the processor supports.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

#include "metricfast.h"
#include "metricfast/library/constrained.hpp"
#include "metricfast/library/embeddings.hpp"
#include "metricfast/library/losses.hpp"
#include "metricfast/library/models.hpp"
#include "metricfast/library/search.hpp"
#include "metricfast/version.hpp"

namespace metricfast {

#define METRICFAST_THREAD_KERNELS(DO)                                                              \
    DO(default_threads)                                                                            \
    DO(available_cpus)                                                                             \
    DO(set_limit)                                                                                  \
    DO(threads_used)

struct ThreadKernels {
    /// Number of threads of calls whose `Control` does not set it.
    Kernel<int()> default_threads;
    Kernel<int()> available_cpus;
    /// Sets the maximum number of threads of a call; 0 for no limit.
    Kernel<void(int threads)> set_limit;
    /// Number of threads that actually run the blocks of a call with `threads`.
    Kernel<int(int threads)> threads_used;
};

/// Kernels of one precision.
template <class T> struct KernelsOf {
    const SearchKernels<T> &search;
    const DatabaseKernels<T> &database;
    const LossKernels<T> &losses;
    const EmbeddingKernels<T> &embeddings;
    const TripletKernels<T> &triplets;
};

/// All kernels of an instruction set level.
struct Kernels {
    const char *version; ///< version of the headers at compilation
    const ThreadKernels &threads;
    const PointKernels &points;
    const LossTools &losses;
    const ConstraintKernels &constraints;
    const ModelKernels &models;
    KernelsOf<float> f32;
    KernelsOf<double> f64;

    /// Loads a learner that Python saved; see ModelKernels::load().
    std::unique_ptr<SavedModel> load_model(const std::filesystem::path &path) const {
        return models.load(path);
    }

    template <class T> const KernelsOf<T> &of() const {
        if constexpr (std::is_same_v<T, float>)
            return f32;
        else
            return f64;
    }
};

} // namespace metricfast

extern "C" {
/// Returns the kernels of the level in use. Returns null if none can be loaded;
/// metricfast_last_error() then returns the reason. The function belongs to the library
/// metricfast::metricfast, which must use the C++ standard library of the caller.
METRICFAST_API const metricfast::Kernels *metricfast_kernels(void);
}

namespace metricfast {

/// Returns the kernels of the level in use. Throws std::runtime_error if none can be loaded, or if
/// these headers are of another version, whose tables differ.
inline const Kernels &library() {
    static const Kernels *const kernels = metricfast_kernels();
    if (kernels == nullptr)
        throw std::runtime_error(metricfast_last_error());
    if (std::strcmp(kernels->version, METRICFAST_VERSION) != 0)
        throw std::runtime_error(std::string("the library metricfast has version ") +
                                 kernels->version +
                                 ", but the program was compiled with headers "
                                 "of version " METRICFAST_VERSION ": compile it again");
    return *kernels;
}

} // namespace metricfast
