from __future__ import annotations

import json

_CHARACTERS_MAX = 80


def quoted(text: str) -> str:
    """External text in quotes, in an error's message: in printable ASCII, and cut after 80 characters."""
    return json.dumps(text if len(text) <= _CHARACTERS_MAX else text[:_CHARACTERS_MAX] + "...")
