"""Makes this package importable in a worker, without being installed.

The server carries the package and starts a worker with the text of this file and of all the others,
so that both always speak the same version.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds modules by name in a dict of texts."""

    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path=None, target=None):
        if name not in self._sources:
            return None
        origin = f"<paceline>/{name}.py"
        spec = importlib.machinery.ModuleSpec(
            name, self, origin=origin, is_package=self.is_package(name)
        )
        spec.has_location = False
        return spec

    def is_package(self, name):
        return name == "paceline"

    def get_source(self, name):
        return self._sources[name]

    def get_code(self, name):
        return self.source_to_code(self._sources[name], f"<paceline>/{name}.py")


def boot(sources):
    """Installs the modules and runs the worker."""
    sys.meta_path.insert(0, _Sources(sources))
    importlib.import_module("paceline.worker").main()
