"""The wheel ships the app inside the package, at dpmc_lab/_app/; all else is in pyproject.toml."""

import os
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
# The address of the repository is known to whoever publishes a version, not to this file.
REPOSITORY = os.environ.get("DPMC_REPOSITORY", "").rstrip("/")


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


def write_description():
    """Return README.md with links that work in an index of packages.

    They lead to this version in the repository, or name the file if its address is not given.
    """
    version = re.search(r'__version__ = "(.+?)"', (ROOT / "dpmc_core" / "__init__.py").read_text())

    def convert_link(match):
        image, label, file = match.groups()
        if REPOSITORY:
            view = "raw" if image else "blob"
            return f"{image}[{label}]({REPOSITORY}/{view}/v{version[1]}/{file})"
        return f"*{label}*" if image else f"{label} (`{file}`)"

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?)\[([^]]+)\]\((?!https?:)([^)]+)\)", convert_link, text)


PAGES = {
    "Source": "",
    "Documentation": "blob/HEAD/docs/index.md",
    "Changes": "blob/HEAD/CHANGELOG.md",
}
setup(
    cmdclass={"build_py": BuildWithApp},
    long_description=write_description(),
    long_description_content_type="text/markdown",
    project_urls={name: f"{REPOSITORY}/{page}".rstrip("/") for name, page in PAGES.items()}
    if REPOSITORY
    else {},
)
