// Runs many models in ONNX Runtime, one after the other in one process.
//
//   ORT_DIR=FOLDER node run_many.mjs [--optimization]
//
// A line of the standard input is MODEL, PREFIX and NAME=INPUT.npy of each input, with tabs between them. Output i goes to
// PREFIXi.npy. The answer is a line: "ok", or "refused" and why.
import readline from "node:readline";
import { createSession, readArray, writeArray } from "../../scripts/onnxruntime_arrays.mjs";

const optimized = process.argv.includes("--optimization");

async function run(model, prefix, inputs) {
  const session = await createSession(model, optimized);
  try {
    const feeds = {};
    for (const input of inputs) {
      const at = input.indexOf("=");
      feeds[input.slice(0, at)] = readArray(input.slice(at + 1));
    }
    const results = await session.run(feeds);
    session.outputNames.forEach((name, i) => writeArray(`${prefix}${i}.npy`, results[name]));
  } finally {
    await session.release();
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const [model, prefix, ...inputs] = line.split("\t");
  try {
    await run(model, prefix, inputs);
    console.log("ok");
  } catch (error) {
    console.log(`refused ${String(error.message ?? error).replace(/\s+/g, " ")}`);
  }
}
