"""Charts: what is drawn, from which query, with which controls and words. Metrics and analyses name theirs.

Nothing here imports Altair or pandas before something is drawn, since ``reporter validate`` reads the files of metrics.
"""

from reporter.charts.captions import Reach
from reporter.charts.chart import SENTENCES, Chapter, Chart, Page
from reporter.charts.layout import Pick, choices, corpora, variants

__all__ = ["SENTENCES", "Chapter", "Chart", "Page", "Pick", "Reach", "choices", "corpora", "variants"]
