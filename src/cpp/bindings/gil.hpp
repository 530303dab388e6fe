/// Release of the GIL while kernels run. They reacquire it at intervals and at their end.
///
/// Before 3.14, Python ends a thread that waits for the GIL of a finalized interpreter. The frames
/// of this thread hold Python objects whose memory other threads may use, so they must not unwind.
/// Instead, the thread sleeps until the process ends, as in Python 3.14 and later.
#pragma once

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include <pybind11/pybind11.h>

#include "metricfast/core/control.hpp"

namespace metricfast::python {

namespace py = pybind11;

/// Puts the thread to sleep if Python ends it, which unwinds frames without an exception.
class Sleeper {
  public:
    Sleeper() = default;
    ~Sleeper() {
        while (!done_ && std::uncaught_exceptions() == exceptions_)
            std::this_thread::sleep_for(std::chrono::hours(1));
    }
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;

    /// Called once Python has returned; the destructor then does nothing.
    void done() { done_ = true; }

  private:
    bool done_ = false;
    int exceptions_ = std::uncaught_exceptions();
};

/// Acquires the GIL. Not inlined: its callers may be destructors, which frames must not unwind
/// through.
PYBIND11_NOINLINE void take_gil(PyThreadState *state) {
    Sleeper sleeper;
    PyEval_RestoreThread(state);
    sleeper.done();
}

/// Releases the GIL for the lifetime of the object.
class Released {
  public:
    Released() : state_(PyEval_SaveThread()) {}
    ~Released() { take_gil(state_); }
    Released(const Released &) = delete;
    Released &operator=(const Released &) = delete;

  private:
    PyThreadState *state_;
};

/// Holds the GIL for the lifetime of the object, in a thread that has released it.
class Acquired {
  public:
    /// \param state the thread state from before the GIL was released.
    explicit Acquired(PyThreadState *state) { take_gil(state); }
    ~Acquired() { PyEval_SaveThread(); }
    Acquired(const Acquired &) = delete;
    Acquired &operator=(const Acquired &) = delete;
};

/// Calls a Python function and returns its result. The caller holds the GIL.
template <class... Arguments>
py::object call_python(const py::function &function, Arguments &&...arguments) {
    Sleeper sleeper;
    py::object result = function(std::forward<Arguments>(arguments)...);
    sleeper.done();
    return result;
}

/// Returns a control that lets Python's signal handlers interrupt a kernel. Create it with the GIL
/// held; run the kernel with the GIL released.
inline Control control(int threads) {
    PyThreadState *const state = PyThreadState_Get();
    return {threads,
            [state] {
                const Acquired gil(state);
                return PyErr_CheckSignals() == 0;
            },
            {}};
}

/// The same for a kernel that runs with the GIL held and releases it at intervals.
inline Control control_with_gil(int threads) {
    return {threads,
            [] {
                {
                    const Released release;
                }
                return PyErr_CheckSignals() == 0;
            },
            {}};
}

} // namespace metricfast::python
