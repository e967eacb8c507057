"""What pyproject.toml cannot say: the compiled kernel, and the README as a package index shows it."""

import os
import re
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "src/csprop/ops/native"
# The two -fno flags forget about errno and floating-point traps; neither changes a result.
FLAGS = [
    "-std=c++17",
    "-O2",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-pthread",
]
# Without /openmp, what asks for vectors is only a hint that is not taken.
MSVC_FLAGS = ["/std:c++17", "/permissive-", "/O2", "/EHsc", "/bigobj", "/utf-8", "/D_USE_MATH_DEFINES"]


class BuildKernel(build_ext):
    """Builds a library that ctypes opens: there is no function of a Python module to export."""

    def build_extension(self, ext: Extension) -> None:
        if self.compiler.compiler_type == "msvc":
            ext.extra_compile_args, ext.extra_link_args = MSVC_FLAGS, []
        else:
            one_by_one = self.compiler.compile

            def compile(sources: list[str], **options: Any) -> list[str]:
                """Several files at a time: two of them take nearly all of the time."""
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    made = pool.map(lambda source: one_by_one([source], **options), sources)
                    return [path for paths in made for path in paths]

            self.compiler.compile = compile
        super().build_extension(ext)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return ext.export_symbols


def kernel() -> list[Extension]:
    """The kernel: left out where it does not compile; always with CSPROP_KERNEL=0, never with 1."""
    asked = os.environ.get("CSPROP_KERNEL", "")
    if asked not in ("", "0", "1"):
        raise SystemExit(
            f"CSPROP_KERNEL={asked}: write 0 (no kernel), 1 (no install without it), or nothing"
        )
    if asked == "0":
        return []
    extension = Extension(
        "csprop.ops.native.kernel",
        sources=[f"{FOLDER}/{name}.cpp" for name in ("plain", "avx2", "kernel", "search")],
        depends=[str(path) for path in sorted(Path(FOLDER).glob("*.hpp"))],
        language="c++",
        extra_compile_args=FLAGS,
        extra_link_args=["-pthread"],
        optional=not asked,
        py_limited_api=not sysconfig.get_config_var("Py_GIL_DISABLED"),
    )
    return [extension]


def readme() -> str:
    """The README, with links and pictures that lead to the repository.

    Its address is `Source` of `[project.urls]`. Without it the text of a link and the words for
    a picture stay.
    """
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    source = project["urls"].get("Source", "").rstrip("/")
    version = re.findall(
        r'^__version__ = "(.*)"$', Path("src/csprop/__init__.py").read_text("utf-8"), re.MULTILINE
    )[0]

    def link(match: re.Match[str]) -> str:
        return (
            f"[{match['text']}]({source}/blob/v{version}/{match['path']})" if source else match["text"]
        )

    def picture(match: re.Match[str]) -> str:
        if not source:
            return f"*Picture: {match['words']}.*"
        return match[0].replace(match["path"], f"{source}/raw/v{version}/{match['path']}", 1)

    text = Path("README.md").read_text("utf-8")
    text = re.sub(r"\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)]*)\)", link, text)
    return re.sub(r'<img src="(?!\w+:)(?P<path>[^"]*)"[^>]* alt="(?P<words>[^"]*)">', picture, text)


extensions = kernel()
setup(
    ext_modules=extensions,
    cmdclass={"build_ext": BuildKernel},
    long_description=readme(),
    long_description_content_type="text/markdown",
    # The kernel uses nothing of Python's: one wheel is for every version.
    options={"bdist_wheel": {"py_limited_api": "cp311"}}
    if any(e.py_limited_api for e in extensions)
    else {},
)
