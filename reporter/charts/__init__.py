"""Charts: what is drawn, from which query, with which controls and words. Metrics and analyses name theirs.

Nothing here imports Altair or pandas before something is drawn, since ``reporter validate`` reads the files of metrics.
"""

from reporter.charts.axes import AxisLimits
from reporter.charts.chart import SENTENCES, Chapter, Chart, Page
from reporter.charts.layout import Pick, choices, corpora, variants

__all__ = ["SENTENCES", "AxisLimits", "Chapter", "Chart", "Page", "Pick", "choices", "corpora", "variants"]
