"""Exceptions for which NumPy and scikit-learn have no class."""

from __future__ import annotations

from numpy.linalg import LinAlgError

__all__ = ["LossOverflowError", "MeasureError", "NonPSDError", "PreprocessorError"]


class PreprocessorError(Exception):
    """A preprocessor raised an error, or could not look up its indicators.

    Parameters
    ----------
    original_error : BaseException
        The exception that the preprocessor raised; an attribute has the same name.
    """

    def __init__(self, original_error: BaseException) -> None:
        self.original_error = original_error
        super().__init__(
            f"An error occurred when trying to use the preprocessor: {original_error!r}"
        )

    def __reduce__(self) -> tuple[type[PreprocessorError], tuple[BaseException]]:
        # The default would wrap the message twice after unpickling.
        return type(self), (self.original_error,)


class MeasureError(Exception):
    """A function given as the measure of a judge did not return a finite cost for each query."""


class NonPSDError(LinAlgError):
    """A matrix that should be positive semidefinite is not."""

    def __init__(self, message: str = "Matrix is not positive semidefinite (PSD).") -> None:
        super().__init__(message)


class LossOverflowError(ValueError):
    """The loss, or its gradient, is not finite although the embedded points are.

    If a loss raises it during training, the learner stops with a ConvergenceWarning.
    """
