/// The compiled library: declarations, which need no Eigen and compile in no time.
///
/// Kernels are compiled once for each instruction set level, and the best that the processor
/// supports is loaded when `library()` is first called.
#pragma once

#include "metricfast.h"
#include "metricfast/library/constrained.hpp"
#include "metricfast/library/embeddings.hpp"
#include "metricfast/library/losses.hpp"
#include "metricfast/library/models.hpp"
#include "metricfast/library/search.hpp"
#include "metricfast/version.hpp"

namespace metricfast {

class ThreadKernels {
  public:
    virtual ~ThreadKernels() = default;

    /// Threads of calls whose `Control` names no number.
    virtual int default_threads() const = 0;
    virtual int available_cpus() const = 0;
    /// No call uses more threads than this; 0: no limit.
    virtual void set_limit(int threads) const = 0;
    /// Number of different threads that run the blocks of a call with `threads`.
    virtual int threads_used(int threads) const = 0;
};

/// Kernels of one precision.
template <class T> struct KernelsOf {
    const SearchKernels<T> &search;
    const LossKernels<T> &losses;
    const EmbeddingKernels<T> &embeddings;
    const TripletKernels<T> &triplets;
};

/// All kernels of an instruction set level.
struct Kernels {
    const char *version; ///< of the headers that they were compiled with
    const ThreadKernels &threads;
    const PointKernels &points;
    const LossTools &losses;
    const ConstraintKernels &constraints;
    const ModelKernels &models;
    KernelsOf<float> f32;
    KernelsOf<double> f64;

    /// A learner that Python saved; see ModelKernels::load().
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
/// The kernels of the level in use; null where none can be loaded, which metricfast_last_error()
/// explains. Of the library metricfast::metricfast, whose C++ standard library is the caller's.
METRICFAST_API const metricfast::Kernels *metricfast_kernels(void);
}

namespace metricfast {

/// The kernels of the level in use. Throws std::runtime_error where none can be loaded.
inline const Kernels &library() {
    static const Kernels *const kernels = metricfast_kernels();
    if (kernels == nullptr)
        throw std::runtime_error(metricfast_last_error());
    return *kernels;
}

} // namespace metricfast
