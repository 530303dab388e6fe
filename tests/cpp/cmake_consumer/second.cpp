#include <metricfast/distance/distance.hpp>

double distance_of_second_file() {
    metricfast::RowMatrix<double> points(2, 1), result(2, 2);
    points << 0, 7;
    const metricfast::Points all(metricfast::view(points));
    metricfast::pairwise_distances<double>(all, all, false, metricfast::view(result), {});
    return result(0, 1);
}
