"""Paths of headers, the CMake package and the C library, for programs that embed the core."""

from __future__ import annotations

from pathlib import Path

import metricfast


def get_include() -> str:
    """Return the directory to put on a C++ compiler's include path.

    The headers need Eigen 3.4 or newer, a C++17 compiler and the platform's threads.

    Returns
    -------
    directory : str
        The directory that holds ``metricfast/metricfast.hpp``, and ``metricfast.h`` for C.

    Raises
    ------
    FileNotFoundError
        If the headers are missing from the installed package.

    Examples
    --------
    >>> import metricfast
    >>> from pathlib import Path
    >>> Path(metricfast.get_include(), "metricfast", "metricfast.hpp").is_file()
    True
    """
    return _find("include")


def get_cmake_dir() -> str:
    """Return the directory to pass to CMake as ``metricfast_DIR`` for ``find_package``.

    Returns
    -------
    directory : str
        The directory that holds ``metricfast-config.cmake``.

    Raises
    ------
    FileNotFoundError
        If the CMake package is missing from the installed package.

    Examples
    --------
    >>> import metricfast
    >>> from pathlib import Path
    >>> Path(metricfast.get_cmake_dir(), "metricfast-config.cmake").is_file()
    True
    """
    return _find("share/cmake/metricfast")


def get_library_dir() -> str:
    """Return the directory of the shared library that programs in C, or that can call C, link to.

    Its header is ``metricfast.h`` in :func:`get_include`.

    Returns
    -------
    directory : str
        The directory that holds ``libmetricfast`` and its code for each instruction
        set.

    Raises
    ------
    FileNotFoundError
        If the library is missing from the installed package.

    Examples
    --------
    >>> import metricfast
    >>> from pathlib import Path
    >>> len(list(Path(metricfast.get_library_dir()).glob("libmetricfast.*")))
    1
    """
    return _find("lib")


def _find(relative: str) -> str:
    # An editable install has two folders: sources and built files.
    for root in metricfast.__path__:
        directory = Path(root, relative)
        if directory.is_dir():
            return str(directory)
    raise FileNotFoundError(f"no {relative} in {list(metricfast.__path__)}")
