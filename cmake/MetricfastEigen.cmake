# Finds Eigen >= 3.4 as Eigen3::Eigen, unless the project around this one has such a target: for the
# Python modules the headers of the Python package cmeel-eigen, which is one of their build
# requirements; otherwise what CMake finds, else the same.

if(TARGET Eigen3::Eigen)
    return()
endif()

if(NOT METRICFAST_BUILD_PYTHON)
    find_package(Eigen3 QUIET NO_MODULE)
endif()
if(NOT Eigen3_FOUND)
    find_package(Python 3.10 COMPONENTS Interpreter)
    if(Python_FOUND)
        # All of sys.path: a build under pip has its requirements in a directory of their own.
        set(script
            "import pathlib, sys"
            "found = [p / 'cmeel.prefix' for p in map(pathlib.Path, sys.path)]"
            "print(*[p.as_posix() for p in found if p.is_dir()], sep='\;')")
        list(JOIN script "\n" script)
        execute_process(COMMAND "${Python_EXECUTABLE}" -c "${script}" OUTPUT_VARIABLE prefixes
                        OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
        list(APPEND CMAKE_PREFIX_PATH ${prefixes})
    endif()
endif()

# No version here: Eigen 5 calls itself incompatible with a request for 3.4.
find_package(Eigen3 QUIET NO_MODULE)
if(NOT Eigen3_FOUND)
    message(FATAL_ERROR "metricfast needs Eigen 3.4 or newer (`pip install cmeel-eigen` brings one), found none")
elseif(Eigen3_VERSION VERSION_LESS 3.4)
    message(FATAL_ERROR "metricfast needs Eigen 3.4 or newer, found ${Eigen3_VERSION} in ${Eigen3_DIR}")
endif()
