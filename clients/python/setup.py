"""Generates messages and stub from the repository's definitions while the wheel is built, so they are never stale."""

import re
import shutil
from pathlib import Path

import grpc_tools
from grpc_tools import protoc
from setuptools import setup
from setuptools.command.build_py import build_py

DEFINITIONS = Path(__file__).resolve().parents[2] / "proto"
# google/api and google/rpc come from googleapis-common-protos: a process can hold each definition only once.
GENERATED = ("datanode/api/v2/*.proto", "vega/*.proto", "vega/data/v1/*.proto", "marketd/history/v1/*.proto")


class BuildWithGeneratedCode(build_py):
    def run(self) -> None:
        super().run()
        target = Path(self.build_lib, "marketd_client", "gen")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        sources = [str(path) for pattern in GENERATED for path in DEFINITIONS.glob(pattern)]
        outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
        includes = [f"-I{DEFINITIONS}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
        if not sources or protoc.main(["protoc", *includes, *outputs, *sources]) != 0:
            raise SystemExit(f"no code could be generated from {DEFINITIONS}")
        for path in target.rglob("*.py*"):
            # protoc imports from the root; these modules live in a package.
            text = re.sub(r"^from (datanode|vega|marketd)\b", r"from marketd_client.gen.\1", path.read_text(), flags=re.M)
            path.write_text(text)


setup(cmdclass={"build_py": BuildWithGeneratedCode})
