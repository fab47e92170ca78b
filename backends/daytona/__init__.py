"""Sandboxes of the Daytona cloud (or a Daytona of one's own), through its asynchronous SDK.

The SDK is also published as `daytona_sdk`, its older name, with the same content; where only that is installed, it is
what `import daytona` gives in this process.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

if find_spec("daytona") is None and find_spec("daytona_sdk") is not None:
    sys.modules["daytona"] = import_module("daytona_sdk")
