#!/usr/bin/env python3
"""Runs ONNX's own tests of operators, as the installed package onnx has them, with `detent run`, and counts.

usage: scripts/onnx_node_tests.py BUILD/bin/detent [--engine NAME] [--only SUBSTRING] [--list]

Tests whose inputs or outputs are no tensors of numbers (sequences, optionals, texts) are counted as others.
"equal": within 1e-3 of each number, or 1e-6 of the largest one (float16 1e-2, bfloat16 3e-2 of either, which is some
of their steps: Detent computes in float32 and rounds at the end), or the test's own tolerance.
Exit status 1 where an output is wrong or less than 95 % are equal.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile
from concurrent import futures

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node as cases

SECONDS = 60


def is_of_tensors(case):
    values = list(case.model.graph.input) + list(case.model.graph.output)
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return False
    types = {value.type.tensor_type.elem_type for value in values}
    return not types & {
        onnx.TensorProto.STRING,
        onnx.TensorProto.COMPLEX64,
        onnx.TensorProto.COMPLEX128,
    }


def as_tensor(value, name, declared):
    if isinstance(value, onnx.TensorProto):
        return value
    tensor = numpy_helper.from_array(numpy.asarray(value), name)
    if tensor.data_type != declared:  # NumPy has no such type: the test's data are these bits or these values
        array = numpy.asarray(value)
        tensor = onnx.helper.make_tensor(name, declared, array.shape, array.flatten().tolist())
    return tensor


def tolerances(case, outputs, info):
    """Relative and absolute."""
    element = info.type.tensor_type.elem_type
    wide = {onnx.TensorProto.FLOAT16: 1e-2, onnx.TensorProto.BFLOAT16: 3e-2}.get(element, 0)
    array = outputs if not isinstance(outputs, onnx.TensorProto) else numpy_helper.to_array(outputs)
    array = numpy.nan_to_num(numpy.asarray(array, dtype=numpy.float64), posinf=0, neginf=0)
    largest = float(abs(array).max()) if array.size else 0.0
    return max(case.rtol or 1e-3, wide), max(case.atol or 1e-7, max(1e-6, wide) * largest)


def result_of(case, program, engine, folder):
    """equal, refused, wrong or crashed, and what the program says."""
    folder.mkdir()
    model = folder / "model.onnx"
    onnx.save(case.model, model)
    said = ""
    for inputs, outputs in case.data_sets:
        pairs = [pair for pair in zip(outputs, case.model.graph.output) if pair[0] is not None]
        rtol, atol = (str(max(numbers)) for numbers in zip(*(tolerances(case, *pair) for pair in pairs)))
        command = [program, "run", str(model), "--rtol", rtol, "--atol", atol]
        command += ["--engine", engine, "--log-level", "error"]
        for flag, values, infos in (
            ("--input", inputs, case.model.graph.input),
            ("--compare", outputs, case.model.graph.output),
        ):
            for value, info in zip(values, infos):
                if value is None:
                    continue
                path = folder / f"{flag[2:]}_{len(command)}.pb"
                tensor = as_tensor(value, info.name, info.type.tensor_type.elem_type)
                path.write_bytes(tensor.SerializeToString())
                command += [flag, f"{info.name}={path}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "crashed", f"more than {SECONDS} s"
        said = (done.stderr or done.stdout).strip()
        if done.returncode < 0 or done.returncode > 2:
            return "crashed", said
        if done.returncode != 0:
            return ("wrong" if " differ " in done.stderr else "refused"), said
    return "equal", said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--engine", default="fast")
    parser.add_argument("--only", default="", help="tests whose names have this in them")
    parser.add_argument("--list", action="store_true", help="each test that is not equal, and why")
    options = parser.parse_args()
    every = [case for case in cases.collect_testcases(None) if options.only in case.name]
    wanted = [case for case in every if is_of_tensors(case)]
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch, futures.ThreadPoolExecutor() as pool:
        paths = [pathlib.Path(scratch) / str(i) for i in range(len(wanted))]
        run = lambda case, path: result_of(case, options.program, options.engine, path)  # noqa: E731
        results = pool.map(run, wanted, paths)
        for case, (verdict, said) in zip(wanted, results):
            counts[verdict] += 1
            if verdict != "equal" and (options.list or verdict != "refused"):
                print(f"{case.name}: {verdict}: {' | '.join(said.splitlines()[-4:])}")
    print(f"{len(wanted)} tests of tensors of numbers, {len(every) - len(wanted)} others: " +
          ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("equal", "refused", "wrong", "crashed")))
    good = counts["wrong"] + counts["crashed"] == 0 and counts["equal"] >= 0.95 * len(wanted)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
