// ONNX Runtime, and its tensors as arrays of NumPy.
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";

/// The package, which is installed in the folder that ORT_DIR names (install_onnxruntime.sh does that).
export const ort = createRequire(path.join(process.env.ORT_DIR ?? process.cwd(), "package.json"))("onnxruntime-node");

const types = {
  "<f4": ["float32", Float32Array], "<f8": ["float64", Float64Array], "<f2": ["float16", Uint16Array],
  "<i8": ["int64", BigInt64Array], "<i4": ["int32", Int32Array], "<i2": ["int16", Int16Array], "|i1": ["int8", Int8Array],
  "|u1": ["uint8", Uint8Array], "|b1": ["bool", Uint8Array],
};

export function readArray(file) {
  const bytes = fs.readFileSync(file);
  const start = bytes[6] === 1 ? 10 : 12;
  const end = start + (bytes[6] === 1 ? bytes.readUInt16LE(8) : bytes.readUInt32LE(8));
  const header = bytes.toString("latin1", start, end);
  const [name, Elements] = types[/'descr': *'([^']+)'/.exec(header)[1]];
  const shape = /'shape': *\(([^)]*)\)/.exec(header)[1].split(",").map((s) => s.trim()).filter(Boolean).map(Number);
  const data = Uint8Array.prototype.slice.call(bytes, end);  // aligned
  return new ort.Tensor(name, new Elements(data.buffer, 0, data.byteLength / Elements.BYTES_PER_ELEMENT), shape);
}

export function writeArray(file, tensor) {
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

export function createSession(model, optimized) {
  return ort.InferenceSession.create(model, {
    intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4, graphOptimizationLevel: optimized ? "all" : "disabled",
  });
}
