/// The exported symbol of a level's library: its kernels and its C functions.
#include "dispatch/level.hpp"
#include "areas.hpp"
#include "metricfast/core/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace level {

void set_limit(int threads) { thread_limit = threads; }

int threads_used(int threads) {
    std::atomic<int> highest{0};
    std::atomic<int> running{0};
    const auto wait = [&](Index, Worker &worker) {
        ++running;
        // Wait briefly for the other threads, so that one thread does not run all blocks.
        for (int i = 0; i < 200 && running < threads; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int seen = highest;
             worker.id() + 1 > seen && !highest.compare_exchange_weak(seen, worker.id() + 1);) {
        }
    };
    parallel_blocks(threads, {threads, {}, {}}, wait);
    return highest;
}

} // namespace level

METRICFAST_TABLE(ThreadKernels, METRICFAST_THREAD_KERNELS, thread_kernels)

namespace {

template <class T> KernelsOf<T> kernels_of() {
    return {search_kernels<T>(), database_kernels<T>(), loss_kernels<T>(), embedding_kernels<T>(),
            triplet_kernels<T>()};
}

} // namespace

METRICFAST_NAMESPACE_END

extern "C" METRICFAST_LEVEL_EXPORT const metricfast::Level *metricfast_level() {
    using namespace metricfast;
    static const Kernels kernels{METRICFAST_VERSION,  thread_kernels(),     point_kernels(),
                                 loss_tools(),        constraint_kernels(), model_kernels(),
                                 kernels_of<float>(), kernels_of<double>()};
    static const Level level{kernels, c_functions()};
    return &level;
}
