"""Every knob of `pair`: its unit, its default and the reason for it, in one place.

Values only; reading argv, the environment and `config.toml` is the command line's work.
The layers below take what they need as arguments without defaults, so that no number has two homes.
`docs/settings.md` is generated from here: one file for each group of sections, `sections.py` for
the whole.
"""

from pair.settings.calls import JobSettings, QueueSettings, RetrySettings, StreamSettings
from pair.settings.choosing import EstimatesSettings, ModelStrategy, PrefixSettings
from pair.settings.knob import knob
from pair.settings.node import FixedNode, NamedEngine, NodeSettings
from pair.settings.probing import ProbingSettings
from pair.settings.proxy import ProxySettings
from pair.settings.relay import RelaySettings
from pair.settings.sections import Settings

__all__ = [
    "EstimatesSettings",
    "FixedNode",
    "JobSettings",
    "ModelStrategy",
    "NamedEngine",
    "NodeSettings",
    "PrefixSettings",
    "ProbingSettings",
    "ProxySettings",
    "QueueSettings",
    "RelaySettings",
    "RetrySettings",
    "Settings",
    "StreamSettings",
    "knob",
]
