"""`python -m sandbox.agent CONFIG.json`: run one node of kind `process`."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from sandbox.agent.agent import run_agent
from sandbox.agent.api import ApiError
from sandbox.agent.config import AgentConfig, AgentConfigError


def main(arguments: list[str]) -> int:
    """Run the agent; return its exit code: 2 for a configuration that can not be, 1 for a refusal of the API server."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    if len(arguments) != 1:
        print("usage: python -m sandbox.agent CONFIG.json", file=sys.stderr)
        return 2
    try:
        asyncio.run(run_agent(AgentConfig.load(Path(arguments[0]))))
    except AgentConfigError as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    except (ApiError, OSError) as error:
        print(f"the node agent ends: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
