#include <string>

#include "check.hpp"
#include "isa_level.hpp"

int level_of_v2();
int level_of_v3();
int level_of_v4();

TEST(objects_of_different_levels_keep_their_own_functions) {
#ifdef HAVE_LEVELS
    CHECK(level_of_v2() == 2);
    CHECK(level_of_v3() == 3);
    CHECK(level_of_v4() == 4);
#endif
    CHECK(metricfast::isa_level() == METRICFAST_ISA_LEVEL);
}

TEST(the_version_is_the_projects) { CHECK(std::string(METRICFAST_VERSION) == PROJECT_VERSION); }
