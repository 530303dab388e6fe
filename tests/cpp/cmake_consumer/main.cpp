#include <cstdint>
#include <iostream>

#include <metricfast/search/neighbors.hpp>

// In a second source file, which includes the headers too.
double distance_of_second_file();

int main() {
    using metricfast::RowMatrix;
    using metricfast::view;
    RowMatrix<double> points(3, 2), distances(3, 1);
    RowMatrix<std::int64_t> nearest(3, 1);
    points << 0, 0, 3, 4, 3, 5;
    const std::int64_t self[] = {0, 1, 2};
    const metricfast::Points all(view(points));
    metricfast::kneighbors<double>(all, all, 1, self, false, view(distances), view(nearest), {});
#ifdef EIGEN_DONT_PARALLELIZE
    const char *const threads = "ours";
#else
    const char *const threads = "Eigen's";
#endif
    std::cout << METRICFAST_VERSION << ' ' << nearest.transpose() << ' ' << distances.transpose()
              << ' ' << distance_of_second_file() << ' ' << threads << '\n';
}
