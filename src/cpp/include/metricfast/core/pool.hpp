/// A pool of reusable objects. It grows to the largest number of simultaneous users.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "metricfast/core/config.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> class Pool {
    /// Returns an object to the pool, or destroys it during an exception.
    struct GiveBack {
        Pool *pool;
        int exceptions = std::uncaught_exceptions();

        void operator()(T *object) const {
            std::unique_ptr<T> owned(object);
            if (std::uncaught_exceptions() == exceptions)
                pool->give_back(std::move(owned));
        }
    };

  public:
    /// Returns an object for exclusive use until the pointer is destroyed.
    std::unique_ptr<T, GiveBack> borrow() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!free_.empty()) {
                auto object = std::move(free_.back());
                free_.pop_back();
                return {object.release(), GiveBack{this}};
            }
        }
        return {new T(), GiveBack{this}};
    }

  private:
    void give_back(std::unique_ptr<T> object) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        try {
            free_.push_back(std::move(object));
        } catch (...) { // no memory for the list: free the object
        }
    }

    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> free_;
};

METRICFAST_NAMESPACE_END
