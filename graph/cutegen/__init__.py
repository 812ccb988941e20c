"""CuTeGen from Python: give it a PyTorch module; get back a verified, faster drop-in made of CuTe kernels.

Installed under the name `cutegen`; what each of these does stands in `graph/api/calls.py`.
"""

from graph.api import *  # noqa: F403
from graph.api import __all__ as __all__
