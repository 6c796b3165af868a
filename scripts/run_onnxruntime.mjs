// Runs a model in ONNX Runtime on arrays of NumPy and writes its outputs as such.
//
//   ORT_DIR=FOLDER node run_onnxruntime.mjs MODEL.onnx OUTPUT_DIR [--no-optimization] [NAME=INPUT.npy]...
//
// FOLDER is where the package onnxruntime-node is installed (compare_with_onnxruntime.sh does that). An output NAME goes
// to OUTPUT_DIR/NAME.npy; what is no letter, digit, "_", "." or "-" becomes "_". Prints NAME=FILE for each.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

const ort = createRequire(path.join(process.env.ORT_DIR ?? process.cwd(), "package.json"))("onnxruntime-node");

const types = {
  "<f4": ["float32", Float32Array], "<f8": ["float64", Float64Array], "<i8": ["int64", BigInt64Array],
  "<i4": ["int32", Int32Array], "<i2": ["int16", Int16Array], "|i1": ["int8", Int8Array],
  "|u1": ["uint8", Uint8Array], "|b1": ["bool", Uint8Array],
};

function readArray(file) {
  const bytes = fs.readFileSync(file);
  const start = bytes[6] === 1 ? 10 : 12;
  const end = start + (bytes[6] === 1 ? bytes.readUInt16LE(8) : bytes.readUInt32LE(8));
  const header = bytes.toString("latin1", start, end);
  const [name, Elements] = types[/'descr': *'([^']+)'/.exec(header)[1]];
  const shape = /'shape': *\(([^)]*)\)/.exec(header)[1].split(",").map((s) => s.trim()).filter(Boolean).map(Number);
  const data = Uint8Array.prototype.slice.call(bytes, end);  // aligned
  return new ort.Tensor(name, new Elements(data.buffer, 0, data.byteLength / Elements.BYTES_PER_ELEMENT), shape);
}

function writeArray(file, tensor) {
  const descr = Object.keys(types).find((key) => types[key][0] === tensor.type);
  if (!descr) throw new Error(`${file}: a tensor of ${tensor.type}`);
  const shape = tensor.dims.map((size) => `${size},`).join(" ");
  let header = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }`;
  header = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const start = Buffer.alloc(10);
  start.write("\x93NUMPY\x01\x00", "latin1");
  start.writeUInt16LE(header.length, 8);
  const { buffer, byteOffset, byteLength } = tensor.data;
  fs.writeFileSync(file, Buffer.concat([start, Buffer.from(header, "latin1"), Buffer.from(buffer, byteOffset, byteLength)]));
}

const [model, folder, ...rest] = process.argv.slice(2);
const optimized = !rest.includes("--no-optimization");
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3, graphOptimizationLevel: optimized ? "all" : "disabled",
});
const feeds = {};
for (const argument of rest.filter((text) => text.includes("="))) {
  const at = argument.lastIndexOf("=");
  feeds[argument.slice(0, at)] = readArray(argument.slice(at + 1));
}
fs.mkdirSync(folder, { recursive: true });
for (const [name, tensor] of Object.entries(await session.run(feeds))) {
  const file = path.join(folder, name.replace(/[^\w.-]/g, "_") + ".npy");
  writeArray(file, tensor);
  console.log(`${name}=${file}`);
}
