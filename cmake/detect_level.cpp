// Prints the best instruction set level that this machine runs.
#include <iostream>

#include "dispatch/supported.hpp"

int main() {
    const auto levels = metricfast::supported_levels();
    if (levels.empty())
        return 1;
    std::cout << levels.back();
}
