"""Makes `tests/backends/controlplanes` importable as the package `controlplanes`.

Neither it nor its parent is put on the path: a folder or file there has the name of each SDK.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

package = ModuleType("controlplanes")
package.__path__ = [str(Path(__file__).parent / "controlplanes")]
sys.modules.setdefault("controlplanes", package)
