"""What stands out among the numbers of a study without anyone having claimed it.

Each kind of finding asks the same questions of every headline statistic, model and corpus; ``find`` corrects for all
that were asked and picks a handful. The tests are those of claims (:mod:`reporter.claims.points`).
"""

from __future__ import annotations

from reporter.findings.finding import find

__all__ = ["find"]
