#!/usr/bin/env bash
# Whole networks beside ONNX Runtime, in float and in 8 bits: milliseconds of a run, and the share of ONNX Runtime's
# time, in bold where it is above what is wanted (1.0 in float, 0.8 in 8 bits). Both take turns, and the least of all
# runs counts: of one thread its CPU time, so that it matters little who else uses the machine.
#
#   bench/engine_ratios.sh BUILD_FOLDER [NETWORK]...
#
# A NETWORK is an ONNX model, a folder with such, or a built-in network with random weights (default: six of these).
# Models are quantized by `detent quantize` with random inputs; open sizes are 1. PYTHON (python3) has onnxruntime and
# numpy. BATCH (1), THREADS ("1 2"), TURNS (4), SECONDS_EACH (0.5) and KINDS ("float int8") as wanted.
set -euo pipefail
build=${1:?the build folder}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" - "$build/bin" "$folder" "${@:2}" <<'PYTHON'
import json, os, pathlib, subprocess, sys, time
import numpy as np, onnxruntime as ort

programs, folder, networks = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
setting = lambda name, default: os.environ.get(name, default)
batch, turns, seconds = int(setting("BATCH", "1")), int(setting("TURNS", "4")), float(setting("SECONDS_EACH", "0.5"))
kinds, limits = setting("KINDS", "float int8").split(), {"float": 1.0, "int8": 0.8}

def call(program, *arguments):
    done = subprocess.run([f"{programs}/{program}", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else program)
    return done.stdout

def session(model, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

def inputs_of(model, count):
    """Random inputs, open sizes being 1 but for the batch, and the shapes to tell Detent."""
    inputs, shapes = {}, []
    for tensor in model.get_inputs():
        shape = [size if isinstance(size, int) else count if at == 0 else 1 for at, size in enumerate(tensor.shape)]
        dtype = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(bool)": bool}.get(tensor.type, np.int64)
        inputs[tensor.name] = np.random.default_rng(1).normal(size=shape).astype(np.float32) \
            if dtype == np.float32 else np.zeros(shape, dtype)
        if shape != tensor.shape:
            shapes += ["--shape", f"{tensor.name}={','.join(map(str, [batch] * (len(shape) > 0) + shape[1:]))}"]
    return inputs, shapes

def our_turn(model, threads, shapes):
    out = call("detent", "bench", model, "--num-threads", threads, "--batch", batch, "--seconds", seconds, *shapes)
    cells = [cell.strip() for cell in out.splitlines()[2].strip("|").split("|")]
    return float(cells[7] if threads == 1 else cells[3])

def their_turn(model, threads, inputs):
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    least, end = 1 << 62, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        model.run(None, inputs)
        least = min(least, clock() - start)
    return least / 1e6

def share(ours, theirs, threads):
    """The least times of both, our model and theirs taking turns."""
    peer = session(theirs, threads)
    inputs, shapes = inputs_of(peer, batch)
    their_turn(peer, threads, inputs)
    pairs = [(our_turn(ours, threads, shapes if ours == theirs else []), their_turn(peer, threads, inputs))
             for _ in range(turns)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)

def built_in(name, kind):
    made = folder / kind
    made.mkdir(exist_ok=True)
    call("quantized_models", *(["--float"] if kind == "float" else []), made, name)
    return made / f"{name}.mz", made / f"{name}.onnx"

def quantized(model):
    inputs, shapes = inputs_of(session(model, 1), 4)
    np.savez(folder / "inputs.npz", **inputs)
    project = str(model.resolve()).replace("/", "_")
    result = folder / f"{project}.onnx"
    fixed = ["--shape", ";".join(shapes[1::2])] if shapes else []
    call("detent", "quantize", model, "--calibration", folder / "inputs.npz", "--project-dir", folder / "projects",
         "--project", project, "-o", result, "--overwrite", *fixed)
    return next((folder / "projects" / project).rglob("*.mz")), result

def cells(name, kind, threads, found):
    try:
        if (name, kind) not in found:
            model = pathlib.Path(name)
            found[name, kind] = built_in(name, kind) if model.suffix != ".onnx" else \
                (model, model) if kind == "float" else quantized(model)
        ours, theirs = share(*found[name, kind], threads)
    except Exception as error:  # of either: the row says so
        print(f"{name}, {kind}: {error}", file=sys.stderr)
        return ["-", "-", "-"], None
    bold = "**" if round(ours / theirs, 2) > limits[kind] else ""
    return [f"{ours:.3g}", f"{theirs:.3g}", f"{bold}{ours / theirs:.2f}{bold}"], ours / theirs

names = []
for network in networks or ["mnist_cnn", "digits_cnn", "resnet20", "mobilenet_v2", "resnet18", "resnet50"]:
    names += sorted(map(str, pathlib.Path(network).rglob("*.onnx"))) if os.path.isdir(network) else [network]
found = {}
for threads in map(int, setting("THREADS", "1 2").split()):
    print(f"\nThreads: {threads}; {'CPU ' if threads == 1 else ''}time, batch {batch}, ONNX Runtime {ort.__version__}\n")
    print("| |" + "".join(f" {kind}: ours | ONNX Runtime's | share |" for kind in kinds))
    print("|---|" + "---:|---:|---:|" * len(kinds), flush=True)
    shares = {kind: [] for kind in kinds}
    for name in names:
        path = pathlib.Path(name)
        row = [path.stem if path.stem != "network" else path.parent.name]
        for kind in kinds:
            of_kind, ratio = cells(name, kind, threads, found)
            row += of_kind
            shares[kind] += [ratio] if ratio else []
        print("| " + " | ".join(row) + " |", flush=True)
    means = [f"{np.mean(shares[kind]):.2f}" if shares[kind] else "-" for kind in kinds]
    print("| mean | " + " | ".join(cell for mean in means for cell in ("", "", mean)) + " |", flush=True)
PYTHON
