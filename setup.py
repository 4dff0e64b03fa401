"""The parts in C (docs/decisions/native-parts.md), left out without a compiler, and the version. For the rest see pyproject.toml."""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py


class Reproducible(build_ext):
    """Keeps the build folder's name out of the library, so that two builds are the same to the byte."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "unix":
            for extension in self.extensions:
                extension.extra_compile_args += ["-O2", "-g0", f"-ffile-prefix-map={os.getcwd()}=."]
        super().build_extensions()


class Versioned(build_py):
    """Writes the version, which follows from the tag, into the built package."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            text = f'"""Which version this is."""\n\nVERSION = "{self.distribution.get_version()}"\n'
            Path(self.build_lib, "ibdissect", "version.py").write_text(text, encoding="utf-8")


class StableAbi(bdist_wheel):
    """Names the wheel for Python 3.11 and later, which the library is built for."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


setup(
    ext_modules=[
        Extension(f"ibdissect.native._{part}", [f"ibdissect/native/{part}.c"], optional=True, py_limited_api=True)
        for part in ("records", "sums")
    ],
    cmdclass={"build_ext": Reproducible, "build_py": Versioned, "bdist_wheel": StableAbi},
)
