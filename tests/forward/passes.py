"""What a pass through a model shows, kept, and the settings of a plain one."""

import numpy as np
import torch

from reporter.forward.measure import Settings
from reporter.models.places import Layout


def settings_for(model, batch_tokens, sites=(), **more):
    frequent = np.zeros(model.anatomy.vocabulary_size, dtype=bool)
    return Settings(batch_tokens, 0, "float32", Layout.of(model.anatomy, sites), frequent, **more)


class Collector:
    """Keeps of every token that passes by these columns of its batch, and last its states."""

    def __init__(self, *columns):
        self.columns, self.rows = columns, []

    def start(self, batch):
        self.states = []

    def observe(self, layer):
        assert layer.index == len(self.states)
        assert layer.states.dtype == torch.float32
        torch.testing.assert_close(layer.norms, layer.states.norm(dim=1))
        self.states.append(layer.states.double().numpy())

    def finish(self, batch):
        assert len(self.states) == len(batch.states)
        for i, facts in enumerate(zip(*(getattr(batch, name) for name in self.columns), strict=True)):
            self.rows.append((*(int(fact) for fact in facts), np.stack([x[i] for x in self.states])))

    def settle(self):
        pass
