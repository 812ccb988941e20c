"""The headers that every kernel is compiled with, whether its source includes them or not, and how it is exported.

For the host compiler they are precompiled once: parsing them takes 3 s of a 3.5 s build.
"""

from __future__ import annotations

from harness.wire.entry import ENTRY_HEADERS, EXPORT

PRELUDE_NAME = "prelude.hpp"

PRELUDE = "#pragma once\n" + "".join(f"#include <{header}>\n" for header in ENTRY_HEADERS) + EXPORT
