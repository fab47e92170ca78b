"""Sandboxes only: this package knows no task, agent or reward.

A backend turns a `SandboxSpec` into a live sandbox that speaks `SandboxBackendProtocol`. The names below are the
public surface; each backend's SDK is imported only when that backend is resolved through the registry.
"""

from backends.errors import (
    SandboxAuthError,
    SandboxBuildError,
    SandboxDiskFull,
    SandboxError,
    SandboxImageNotFound,
    SandboxOutOfMemory,
    SandboxQuotaError,
    SandboxStartError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
    SandboxUnusable,
)
from backends.lifecycle import open_sandbox
from backends.protocol import Capabilities, Readiness, SandboxBackendProtocol, SandboxProvider
from backends.registry import backend_names, create_provider
from backends.spec import (
    ExecuteResponse,
    FileInfo,
    GrepMatch,
    NetworkMode,
    Resources,
    SandboxInfo,
    SandboxSpec,
)

__all__ = [
    "Capabilities",
    "ExecuteResponse",
    "FileInfo",
    "GrepMatch",
    "NetworkMode",
    "Readiness",
    "Resources",
    "SandboxAuthError",
    "SandboxBackendProtocol",
    "SandboxBuildError",
    "SandboxDiskFull",
    "SandboxError",
    "SandboxImageNotFound",
    "SandboxInfo",
    "SandboxOutOfMemory",
    "SandboxProvider",
    "SandboxQuotaError",
    "SandboxSpec",
    "SandboxStartError",
    "SandboxTimeout",
    "SandboxUnavailable",
    "SandboxUnsupported",
    "SandboxUnusable",
    "backend_names",
    "create_provider",
    "open_sandbox",
]
