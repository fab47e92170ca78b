"""Sandboxes of the Daytona cloud (or a Daytona of one's own), through its asynchronous SDK.

The SDK is also published as `daytona_sdk`, its older name, with the same content; where only that is installed, it is
what `import daytona` gives in this process.
"""

import importlib
import importlib.util
import sys

if importlib.util.find_spec("daytona") is None and importlib.util.find_spec("daytona_sdk") is not None:
    sys.modules["daytona"] = importlib.import_module("daytona_sdk")
