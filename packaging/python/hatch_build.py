"""Marks the wheel as one for a platform, because it contains a binary."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):
    """Sets the tag of the wheel. It works with every version of Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['HOLDFAST_WHEEL_PLATFORM']}"
