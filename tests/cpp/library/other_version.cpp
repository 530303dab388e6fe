/// A program that was compiled with the headers of another version.
#include <metricfast/version.hpp>

#undef METRICFAST_VERSION
#define METRICFAST_VERSION "0.0.1"

#include "check.hpp"

#include <metricfast/library/calls.hpp>

TEST(libraries_of_another_version_are_refused) {
    CHECK_THROWS(std::runtime_error, "headers of version 0.0.1: compile it again",
                 metricfast::library());
}
