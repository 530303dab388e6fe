/// Parallel loops over blocks of work with short-lived std::threads, and their cancellation. All
/// threading of the library is here.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif
#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

#include "metricfast/core/control.hpp"
#include "metricfast/core/types.hpp"

/// Place before a catch (...). pthread_exit() unwinds frames by a special exception, which a
/// handler must rethrow.
#ifdef __GLIBCXX__
#define METRICFAST_ON_THREAD_EXIT(statement)                                                       \
    catch (abi::__forced_unwind &) {                                                               \
        statement;                                                                                 \
        throw;                                                                                     \
    }
#else
#define METRICFAST_ON_THREAD_EXIT(statement)
#endif

METRICFAST_NAMESPACE_BEGIN

/// Returns the number of CPUs that this process may use, according to its affinity.
inline int available_cpus() {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// The maximum number of threads of a call, whatever it requests; 0 for no limit.
inline std::atomic<int> thread_limit{0};

/// Returns `threads`, at most the limit.
inline int limited(int threads) {
    const int limit = thread_limit;
    return limit > 0 ? std::min(threads, limit) : threads;
}

/// Returns METRICFAST_NUM_THREADS, else OMP_NUM_THREADS, else the number of available CPUs; at most
/// the limit.
inline int default_threads() {
    for (const char *name : {"METRICFAST_NUM_THREADS", "OMP_NUM_THREADS"})
        if (const char *text = std::getenv(name)) {
            const long value = std::strtol(text, nullptr, 10);
            if (value > 0)
                return limited(
                    static_cast<int>(std::min<long>(value, std::numeric_limits<int>::max())));
        }
    return limited(available_cpus());
}

/// Returns the number of threads of a call.
inline int thread_count(const Control &control) {
    return control.threads > 0 ? limited(control.threads) : default_threads();
}

/// Returns the number of threads for a number of blocks.
inline int thread_count(const Control &control, Index blocks) {
    constexpr Index most = 1024;
    return static_cast<int>(
        std::max<Index>(1, std::min({Index(thread_count(control)), blocks, most})));
}

namespace detail {

/// The entry of helper threads into a call. It outlives the call, because helpers may arrive after
/// its end.
struct Gate {
    std::mutex mutex;
    std::condition_variable left;
    bool open = true;
    int inside = 0;
};

/// The state shared by the threads of a parallel_blocks() call.
struct Crew {
    const Control &control;
    Index total; ///< units of work, for progress
    std::atomic<Index> done{0};
    std::atomic<bool> stop{false};
    std::mutex mutex; ///< guards `error`
    std::exception_ptr error;
    std::chrono::steady_clock::time_point polled = std::chrono::steady_clock::now();

    static constexpr std::chrono::milliseconds interval{20};

    Crew(const Control &control_, Index total_) : control(control_), total(total_) {}

    /// Called by the calling thread. Reports progress and checks for cancellation, at most once per
    /// interval.
    void poll() {
        const auto now = std::chrono::steady_clock::now();
        if (now - polled < interval)
            return;
        polled = now;
        if (control.progress)
            control.progress(static_cast<double>(done) / static_cast<double>(total));
        if (control.keep_going && !control.keep_going())
            throw Cancelled();
    }

    void fail(std::exception_ptr e) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!error)
            error = e;
        stop = true;
    }

    /// Called by the calling thread after its work. Closes the gate and polls until all helpers
    /// have left.
    void wait(Gate &gate) {
        std::unique_lock<std::mutex> lock(gate.mutex);
        gate.open = false;
        while (!gate.left.wait_for(lock, interval, [&gate] { return gate.inside == 0; })) {
            lock.unlock();
            try {
                if (!stop)
                    poll();
            }
            METRICFAST_ON_THREAD_EXIT()
            catch (...) {
                fail(std::current_exception());
            }
            lock.lock();
        }
    }
};

/// Allocates the memory that this thread needs to throw exceptions; returns false if that fails.
/// The first throw of a thread would allocate it otherwise, and the C library ends the process if
/// this fails.
inline bool can_throw() {
    void *volatile room = std::malloc(1 << 16);
    if (room == nullptr)
        return false;
    std::free(room);
    return std::uncaught_exceptions() == 0;
}

/// Marks a helper as being in a call. The helper has passed the gate.
struct Inside {
    Gate &gate;
    ~Inside() {
        const std::lock_guard<std::mutex> lock(gate.mutex);
        --gate.inside;
        gate.left.notify_one();
    }
};

/// The threads that a call has started. The destructor joins them, even after an exception.
struct Helpers {
    Crew &crew;
    Gate &gate;
    std::vector<std::thread> threads;
    ~Helpers() {
        crew.stop = true;
        crew.wait(gate);
        for (auto &thread : threads)
            thread.join();
    }
};

/// Calls work(id) on this thread, with id 0, and on other threads.
inline void work_together(int threads, const Control &control, Crew &crew,
                          const std::function<void(int)> &work) {
    const auto gate = std::make_shared<Gate>();
    const auto help = [gate, &work](int id) {
        {
            const std::lock_guard<std::mutex> lock(gate->mutex);
            if (!gate->open)
                return;
            ++gate->inside;
        }
        const Inside leaves{*gate};
        if (can_throw())
            work(id);
    };
    Helpers helpers{crew, *gate, {}};
    helpers.threads.reserve(static_cast<std::size_t>(threads - 1));
    for (int id = 1; id < threads; ++id)
        try {
            if (control.executor)
                control.executor([help, id] { help(id); });
            else
                helpers.threads.emplace_back(help, id);
        }
    METRICFAST_ON_THREAD_EXIT()
    catch (...) {
        break; // The system has no more threads: the existing ones do all the work.
    }
    work(0);
    crew.wait(*gate);
}

} // namespace detail

/// A thread of a parallel_blocks() call.
class Worker {
  public:
    Worker(int id, detail::Crew &crew) : id_(id), crew_(crew) {}

    /// The index of the thread, below the number of threads; 0 for the calling thread.
    int id() const { return id_; }

    /// Counts a completed unit of work. Throws Cancelled if the call is cancelled.
    void advance() {
        ++crew_.done;
        if (crew_.stop)
            throw Cancelled();
        if (id_ == 0)
            crew_.poll();
    }

  private:
    int id_;
    detail::Crew &crew_;
};

/// A reference to a function f(block, worker), which must outlive the reference.
class BlockTask {
  public:
    template <class F, class = std::enable_if_t<!std::is_same_v<F, BlockTask>>>
    BlockTask(const F &f)
        : f_(&f), call_([](const void *what, Index block, Worker &worker) {
              (*static_cast<const F *>(what))(block, worker);
          }) {}
    void operator()(Index block, Worker &worker) const { call_(f_, block, worker); }

  private:
    const void *f_;
    void (*call_)(const void *, Index, Worker &);
};

/// Runs f(block, worker) for every block in [0, blocks). Which thread runs a block is not
/// determined, so f's effects must not depend on it. The first exception of any block, or
/// Cancelled, is rethrown after all threads have stopped.
/// \param units the total number of calls of worker.advance() by long blocks; 0 if each block is
///   one unit.
inline void parallel_blocks(Index blocks, const Control &control, const BlockTask &f,
                            Index units = 0) {
    if (blocks <= 0)
        return;
    const int threads = thread_count(control, blocks);
    std::atomic<Index> next{0};
    detail::Crew crew(control, units > 0 ? units : blocks);
    const auto work = [&](int id) {
        try {
            Worker worker(id, crew);
            for (Index b; !crew.stop && (b = next++) < blocks;) {
                f(b, worker);
                if (units == 0)
                    worker.advance();
            }
        }
        METRICFAST_ON_THREAD_EXIT(crew.fail(std::make_exception_ptr(Cancelled())))
        catch (...) {
            crew.fail(std::current_exception());
        }
    };
    if (threads == 1)
        work(0);
    else
        detail::work_together(threads, control, crew, work);
    if (crew.error)
        std::rethrow_exception(crew.error);
}

METRICFAST_NAMESPACE_END
