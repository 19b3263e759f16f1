"""Charts: what is drawn, from which query, with which controls and words. Metrics and analyses name theirs.

Nothing here imports Altair or pandas before something is drawn, since ``reporter check`` reads the files of metrics.
"""

from reporter.charts.chart import SENTENCES, Chapter, Chart, Page, Query
from reporter.charts.layout import Pick, choices, corpora, variants
from reporter.charts.readings import Shown

__all__ = ["SENTENCES", "Chapter", "Chart", "Page", "Pick", "Query", "Shown", "choices", "corpora", "variants"]
