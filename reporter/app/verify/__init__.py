"""A second opinion: a few cells of a study measured again by an independent, slow path that anybody can run."""

from reporter.app.verify.cells import Asked
from reporter.app.verify.deviations import show
from reporter.app.verify.verification import Verification, verify

__all__ = ["Asked", "Verification", "show", "verify"]
