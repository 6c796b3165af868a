// Runs a model in ONNX Runtime on arrays of NumPy and writes its outputs as such.
//
//   ORT_DIR=FOLDER node run_onnxruntime.mjs MODEL.onnx OUTPUT_DIR [--no-optimization] [NAME=INPUT.npy]...
//
// FOLDER is where the package onnxruntime-node is installed (install_onnxruntime.sh does that). An output NAME goes
// to OUTPUT_DIR/NAME.npy; what is no letter, digit, "_", "." or "-" becomes "_". Prints NAME=FILE for each.
import fs from "node:fs";
import path from "node:path";
import { createSession, readArray, writeArray } from "./onnxruntime_arrays.mjs";

const [model, folder, ...rest] = process.argv.slice(2);
const session = await createSession(model, !rest.includes("--no-optimization"));
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
