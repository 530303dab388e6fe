/// The only threading: blocks of work handed to short-lived std::threads, and cancellation.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

#include "metricfast/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Thrown out of a kernel whose `Control::keep_going` returned false.
struct Cancelled : std::runtime_error {
    Cancelled() : std::runtime_error("metricfast: cancelled") {}
};

/// CPUs that this process may use (its affinity, not the machine's count).
inline int available_cpus() {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// No call uses more threads than this, whatever it asks for; 0: no limit.
inline std::atomic<int> thread_limit{0};

/// `threads` within the limit.
inline int limited(int threads) {
    const int limit = thread_limit;
    return limit > 0 ? std::min(threads, limit) : threads;
}

/// METRICFAST_NUM_THREADS, else OMP_NUM_THREADS, else the available CPUs; within the limit.
inline int default_threads() {
    for (const char *name : {"METRICFAST_NUM_THREADS", "OMP_NUM_THREADS"})
        if (const char *text = std::getenv(name)) {
            const int value = std::atoi(text);
            if (value > 0)
                return limited(value);
        }
    return limited(available_cpus());
}

/// How a kernel runs. `keep_going` and `progress` are called on the calling thread alone, between
/// blocks: `keep_going` at most every 20 ms (return false to cancel), `progress` with the share
/// done.
struct Control {
    int threads = 0; ///< 0: default_threads()
    std::function<bool()> keep_going;
    std::function<void(double)> progress;
};

/// One thread's part in a parallel_blocks call.
class Worker {
  public:
    Worker(int id, const Control *control, std::atomic<bool> &stop)
        : id_(id), control_(control), stop_(stop) {}

    /// Below the thread count: picks scratch memory.
    int id() const { return id_; }

    /// Where long blocks let themselves be interrupted: throws Cancelled once the work should stop.
    void checkpoint(double share_done) {
        if (stop_)
            throw Cancelled();
        if (control_ == nullptr || (!control_->keep_going && !control_->progress))
            return;
        const auto now = std::chrono::steady_clock::now();
        if (now - polled_ < std::chrono::milliseconds(20))
            return;
        polled_ = now;
        if (control_->progress)
            control_->progress(share_done);
        if (control_->keep_going && !control_->keep_going())
            throw Cancelled();
    }

  private:
    int id_;
    const Control *control_; ///< null on all but the calling thread
    std::atomic<bool> &stop_;
    std::chrono::steady_clock::time_point polled_ = std::chrono::steady_clock::now();
};

/// Runs f(block, worker) for every block in [0, blocks). Which thread runs a block is not
/// determined, so f's effects must not depend on it. The first exception of any block, or
/// Cancelled, is rethrown after all threads have stopped.
template <class F> void parallel_blocks(Index blocks, const Control &control, F &&f) {
    const int wanted = control.threads > 0 ? limited(control.threads) : default_threads();
    const int threads = static_cast<int>(std::max<Index>(1, std::min<Index>(wanted, blocks)));
    std::atomic<Index> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex error_mutex;
    const auto work = [&](int id) {
        try {
            Worker worker(id, id == 0 ? &control : nullptr, stop);
            for (Index b; !stop && (b = next++) < blocks;) {
                f(b, worker);
                worker.checkpoint(static_cast<double>(b + 1) / static_cast<double>(blocks));
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(error_mutex);
            if (!error)
                error = std::current_exception();
            stop = true;
        }
    };
    std::vector<std::thread> helpers;
    try {
        for (int id = 1; id < threads; ++id)
            helpers.emplace_back(work, id);
    } catch (const std::system_error &) {
        // The system gives no more threads: the ones there are do all of the work.
    }
    work(0);
    for (auto &helper : helpers)
        helper.join();
    if (error)
        std::rethrow_exception(error);
}

METRICFAST_NAMESPACE_END
