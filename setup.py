"""The compiled kernel: optional, so that an install without a C++ compiler still succeeds."""

from glob import glob

from setuptools import Extension, setup

FOLDER = "src/csprop/ops/native"

setup(
    ext_modules=[
        Extension(
            "csprop.ops.native.kernel",
            sources=[f"{FOLDER}/{name}.cpp" for name in ("kernel", "plain", "avx2", "search")],
            depends=glob(f"{FOLDER}/*.hpp"),
            language="c++",
            # The two -fno flags forget about errno and floating-point traps; neither changes a result.
            extra_compile_args=[
                "-std=c++17",
                "-O2",
                "-g0",
                "-fno-math-errno",
                "-fno-trapping-math",
                "-fopenmp-simd",
                "-pthread",
            ],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
