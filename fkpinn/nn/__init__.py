"""Networks."""

from ._mlp import MLP as MLP
