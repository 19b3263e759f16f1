"""The settings of a plain pass."""

import numpy as np

from reporter.forward.output import Settings
from reporter.models.places import Layout


def settings_for(model, batch_tokens, sites=(), **more):
    frequent = np.zeros(model.anatomy.vocabulary_size, dtype=bool)
    return Settings(batch_tokens, 0, "float32", Layout.of(model.anatomy, sites), frequent, **more)
