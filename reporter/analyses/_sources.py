"""The works that definitions of the analyses come from, besides those of metrics."""

from reporter.metrics._sources import LUISTO
from reporter.metrics.base import Source

__all__ = ["DOIMO", "EFRON", "FISHER", "HEWITT", "LUISTO", "ROUSSEEUW", "VALERIANI", "WILSON"]

ROUSSEEUW = Source(
    "Rousseeuw 1987",
    "Rousseeuw 1987, 'Silhouettes: A graphical aid to the interpretation and validation of cluster analysis', Journal "
    "of Computational and Applied Mathematics 20:53–65",
)
HEWITT = Source(
    "Hewitt & Liang 2019",
    "Hewitt & Liang 2019, 'Designing and Interpreting Probes with Control Tasks', EMNLP-IJCNLP 2019, arXiv:1909.03368",
)
WILSON = Source(
    "Wilson 1927",
    "Wilson 1927, 'Probable Inference, the Law of Succession, and Statistical Inference', Journal of the American "
    "Statistical Association 22:209–212",
)
EFRON = Source(
    "Efron 1979", "Efron 1979, 'Bootstrap Methods: Another Look at the Jackknife', Annals of Statistics 7(1)"
)
FISHER = Source(
    "Fisher 1935", "Fisher 1935, 'The Design of Experiments', section 21: the signs of paired differences at random"
)
DOIMO = Source(
    "Doimo et al. 2020",
    "Doimo, Glielmo, Ansuini & Laio 2020, 'Hierarchical nucleation in deep neural networks', NeurIPS 2020, "
    "arXiv:2007.03506",
)
VALERIANI = Source(
    "Valeriani et al. 2023",
    "Valeriani, Doimo, Cuturello, Laio, Ansuini & Cazzaniga 2023, 'The geometry of hidden representations of large "
    "transformer models', NeurIPS 2023, arXiv:2302.00294",
)
