"""Thousands of nodes and pods without a machine behind them: kwok, with pods that live as their annotations say."""

from sandbox.kwok.controller import KWOK
from sandbox.kwok.life import Ending, PodLife
from sandbox.kwok.nodes import KWOK_TAINT, add_nodes, lose_nodes, remove_nodes, return_nodes

__all__ = ["KWOK", "KWOK_TAINT", "Ending", "PodLife", "add_nodes", "lose_nodes", "remove_nodes", "return_nodes"]
