"""The part in C (docs/decisions/native-parts.md); without a compiler the package installs without it. All else stands in pyproject.toml."""

import os

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class Reproducible(build_ext):
    """Keeps the build folder's name out of the library, so that two builds are the same to the byte."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "unix":
            for extension in self.extensions:
                extension.extra_compile_args += ["-O2", "-g0", f"-ffile-prefix-map={os.getcwd()}=."]
        super().build_extensions()


class StableAbi(bdist_wheel):
    """Names the wheel for Python 3.11 and later, which the library is built for."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


setup(
    ext_modules=[Extension("ibdissect.native._sums", ["ibdissect/native/sums.c"], optional=True, py_limited_api=True)],
    cmdclass={"build_ext": Reproducible, "bdist_wheel": StableAbi},
)
