"""Every observable by name."""

from __future__ import annotations

from collections.abc import Mapping

from reporter.observables.activations import Activations
from reporter.observables.contributions import Contributions
from reporter.observables.cross import Cross
from reporter.observables.frequency_split import FrequencySplit
from reporter.observables.gram import Gram
from reporter.observables.intra_text import IntraText
from reporter.observables.journey import Journey
from reporter.observables.layer_angles import LayerAngles
from reporter.observables.lens import Lens
from reporter.observables.losses import Losses
from reporter.observables.moments import Moments
from reporter.observables.norm_ratios import NormRatios
from reporter.observables.observable import Observable
from reporter.observables.pooled import Pooled
from reporter.observables.sink_tokens import SinkTokens
from reporter.observables.text_entropy import TextEntropy
from reporter.observables.text_means import TextMeans
from reporter.observables.text_sums import TextSums
from reporter.observables.token_names import TokenNames
from reporter.observables.token_path import TokenPath
from reporter.observables.token_sample import Tokens
from reporter.observables.type_moments import TypeMoments
from reporter.observables.type_sample import TypeSample

KINDS: Mapping[str, type[Observable]] = {
    kind.name: kind
    for kind in (
        Moments,
        Gram,
        TextSums,
        TextMeans,
        FrequencySplit,
        Tokens,
        Losses,
        Lens,
        Journey,
        TypeMoments,
        TypeSample,
        IntraText,
        TokenPath,
        Pooled,
        Activations,
        TextEntropy,
        SinkTokens,
        NormRatios,
        Cross,
        LayerAngles,
        TokenNames,
        Contributions,
    )
}
