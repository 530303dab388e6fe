/// The version of the library. All other files read it from here.
#pragma once

#define METRICFAST_VERSION_MAJOR 0
#define METRICFAST_VERSION_MINOR 1
#define METRICFAST_VERSION_PATCH 0

#define METRICFAST_JOIN(major, minor, patch) #major "." #minor "." #patch
#define METRICFAST_JOINED(major, minor, patch) METRICFAST_JOIN(major, minor, patch)
/// The version as a string.
#define METRICFAST_VERSION                                                                         \
    METRICFAST_JOINED(METRICFAST_VERSION_MAJOR, METRICFAST_VERSION_MINOR, METRICFAST_VERSION_PATCH)
