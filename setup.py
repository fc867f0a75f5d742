"""The wheel ships the app inside the package, at dpmc_lab/_app/; all else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithApp(build_py):
    """Copy app.py, pages/ and the app's configuration into the package that is being built."""

    def run(self):
        super().run()
        if self.editable_mode:  # the app is used where it lies
            return
        target = Path(self.build_lib, "dpmc_lab", "_app")
        shutil.rmtree(target, ignore_errors=True)  # from an older build
        ignore = shutil.ignore_patterns("__pycache__", "secrets.toml")
        for folder in ("pages", ".streamlit"):
            shutil.copytree(folder, target / folder, ignore=ignore)
        shutil.copy("app.py", target)


setup(cmdclass={"build_py": BuildWithApp})
