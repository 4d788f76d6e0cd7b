"""Keeping the libraries under a local model from telling anyone about it."""

from __future__ import annotations

import os

# onnxruntime from 1.29 sends what it runs to its maker, from Linux and macOS too, and keeps a device's number
# under ~/.cache for it. Only the environment, before its first import, forbids all of that.
_FORBIDDEN = {
    "ORT_DISABLE_TELEMETRY": "1",
    "ORT_TELEMETRY_DISABLED": "1",  # the name that some releases between know
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def forbid_telemetry() -> None:
    """Call before onnxruntime, fastembed or huggingface_hub is imported, anywhere in this program."""
    os.environ.update(_FORBIDDEN)
