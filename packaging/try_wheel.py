"""Install a wheel where there is no compiler, and reach a first result.

python3.12 packaging/try_wheel.py dist/metricfast-*-cp312-*.whl [options of pip install]

The wheel and its dependencies go into a new environment of the Python that this is run with. No
program is on the PATH but those of that environment.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv

MOST_BYTES = 10_000_000
WANTED_SECONDS = 20
FIRST_RESULT = """
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale
import metricfast
from metricfast.neighbors import KNeighborsClassifier

X, y = load_wine(return_X_y=True)
X, X_test, y, y_test = train_test_split(scale(X), y, random_state=0, stratify=y)
knn = KNeighborsClassifier(3, metric=metricfast.NCA(random_state=0)).fit(X, y)
accuracy = knn.score(X_test, y_test)
print(f"accuracy {accuracy:.3f} on instruction set {metricfast.build_info()['isa']}")
assert accuracy > 0.9
"""


def main():
    """Try the wheel that the command line names."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    wheel, *options = sys.argv[1:]
    size = pathlib.Path(wheel).stat().st_size
    print(f"{wheel}: {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        sys.exit(f"larger than {MOST_BYTES / 1e6} MB")
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        programs = pathlib.Path(directory, "Scripts" if os.name == "nt" else "bin")
        environment = {**os.environ, "PATH": str(programs)}

        def run(*arguments):
            subprocess.run(
                [programs / "python", *arguments], env=environment, cwd=directory, check=True
            )

        start = time.perf_counter()
        run("-m", "pip", "install", "--quiet", *options, str(pathlib.Path(wheel).resolve()))
        installed = time.perf_counter() - start
        run("-c", FIRST_RESULT)
        seconds = time.perf_counter() - start
    print(f"installed after {installed:.1f} s, first result after {seconds:.1f} s")
    if seconds > WANTED_SECONDS:
        sys.exit(f"later than the {WANTED_SECONDS} s wanted; the network has its share in it")


if __name__ == "__main__":
    main()
