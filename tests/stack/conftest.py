from __future__ import annotations

from stack.testing import stack

__all__ = ["stack"]
