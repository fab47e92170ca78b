"""The one thing about Daytona's SDK that a loopback without certificates needs changed: https for build contexts."""

from __future__ import annotations

from typing import Any

import daytona._async.object_storage as storage

_Store = storage.S3Store


def plain_store(*args: Any, client_options: dict[str, Any], **options: Any) -> storage.S3Store:
    """The SDK's store, that may also speak http."""
    return _Store(*args, client_options={**client_options, "allow_http": True}, **options)


def allow_http() -> None:
    """Let this process's SDK send build contexts to a loopback plane."""
    storage.S3Store = plain_store  # type: ignore[assignment,misc]
