/// Kernels run without the GIL, and ask for it in between and at their end.
///
/// Python before 3.14 ends a thread that waits for the GIL of an interpreter that is finalized. The
/// frames of such a thread hold objects of Python, and other threads may work on their memory: here
/// the thread sleeps instead, until the process ends, as Python does from 3.14 on.
#pragma once

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include <pybind11/pybind11.h>

#include "metricfast/core/control.hpp"

namespace metricfast::python {

namespace py = pybind11;

/// Stops the end of this thread, which unwinds frames without an exception.
class Sleeper {
  public:
    Sleeper() = default;
    ~Sleeper() {
        while (!done_ && std::uncaught_exceptions() == exceptions_)
            std::this_thread::sleep_for(std::chrono::hours(1));
    }
    Sleeper(const Sleeper &) = delete;
    Sleeper &operator=(const Sleeper &) = delete;

    /// Python has returned.
    void done() { done_ = true; }

  private:
    bool done_ = false;
    int exceptions_ = std::uncaught_exceptions();
};

/// A function of its own: its callers may be destructors, through which nothing may unwind.
PYBIND11_NOINLINE void take_gil(PyThreadState *state) {
    Sleeper sleeper;
    PyEval_RestoreThread(state);
    sleeper.done();
}

/// Releases the GIL for as long as it lives.
class Released {
  public:
    Released() : state_(PyEval_SaveThread()) {}
    ~Released() { take_gil(state_); }
    Released(const Released &) = delete;
    Released &operator=(const Released &) = delete;

  private:
    PyThreadState *state_;
};

/// Holds the GIL for as long as it lives, where this thread has released it.
class Acquired {
  public:
    /// \param state of this thread, from when it had the GIL.
    explicit Acquired(PyThreadState *state) { take_gil(state); }
    ~Acquired() { PyEval_SaveThread(); }
    Acquired(const Acquired &) = delete;
    Acquired &operator=(const Acquired &) = delete;
};

/// What a function of Python's returns; call with the GIL held.
template <class... Arguments>
py::object call_python(const py::function &function, Arguments &&...arguments) {
    Sleeper sleeper;
    py::object result = function(std::forward<Arguments>(arguments)...);
    sleeper.done();
    return result;
}

/// Interruptible by Python's signal handlers; call with the GIL held, run with it released.
inline Control control(int threads) {
    PyThreadState *const state = PyThreadState_Get();
    return {threads,
            [state] {
                const Acquired gil(state);
                return PyErr_CheckSignals() == 0;
            },
            {}};
}

/// The same for a kernel that is run with the GIL held, which it lets others have in between.
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
