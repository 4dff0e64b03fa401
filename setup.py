"""The parts that are compiled, left out without a compiler, and the version. For the rest see pyproject.toml.

CRCs and record starts are C (docs/decisions/native-parts.md), the engine is Python that Cython compiles (docs/decisions/one-engine.md).
"""

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ENGINE = (
    "common",
    "packet_fields",
    "waiting_packets",
    "answer_times",
    "direction",
    "requester_responder",
    "psn_order",
    "hosts",
    "pairing",
    "message_places",
    "lanes",
    "facts",
    "ports",
    "directed_routes",
    "smps",
    "offsets",
    "tunnels",
    "link_headers",
    "locate",
    "datagram_copies",
    "equal_frames",
    "in_and_out_copies",
    "seen_before",
    "flow_counts",
)
"""Modules of ibdissect/engine that are compiled; the others are Python."""
STABLE = ("Py_LIMITED_API", "0x030b0000")


class Reproducible(build_ext):
    """Keeps the build folder's name out of the library, so that two builds are the same to the byte; compiles on all cores."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

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
            name = Path("ibdissect", "version.py")
            before = name.read_text(encoding="utf-8")  # not of the build folder, which may hold an older one
            after = re.sub(r'(?m)^VERSION = ".*"$', f'VERSION = "{self.distribution.get_version()}"', before)
            if after == before:
                raise RuntimeError(f"{name} has no line for the version")
            Path(self.build_lib, name).write_text(after, encoding="utf-8")


class StableAbi(bdist_wheel):
    """Names the wheel for Python 3.11 and later, which the library is built for."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


def engine() -> list[Extension]:
    """The modules of the engine as extensions; none without Cython, with which the package is interpreted."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    found: list[Extension] = cythonize(
        [
            Extension(f"ibdissect.engine.{name}", [f"ibdissect/engine/{name}.py"], define_macros=[STABLE], py_limited_api=True)
            for name in ENGINE
        ],
        build_dir="build/engine",
        compiler_directives={
            "language_level": "3",
            "initializedcheck": False,  # a view without memory has no elements: bounds say so
            "auto_pickle": False,  # pickling such a view would end the process
        },
        nthreads=(os.cpu_count() or 1) if sys.platform == "linux" else 0,  # elsewhere its processes would begin with this file
    )
    for extension in found:
        extension.optional = True  # cythonize forgets it, and without a compiler the installation would fail
    return found


setup(
    ext_modules=[
        *(
            Extension(f"ibdissect.c_code._{part}", [f"ibdissect/c_code/{part}.c"], optional=True, py_limited_api=True)
            for part in ("records", "sums")
        ),
        *engine(),
    ],
    cmdclass={"build_ext": Reproducible, "build_py": Versioned, "bdist_wheel": StableAbi},
)
