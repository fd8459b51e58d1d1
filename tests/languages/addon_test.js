// What the Node.js addon does besides the sample: types, errors, close, workers. The argument is a folder with classifier_ctx.onnx.
"use strict";

const assert = require("node:assert");
const path = require("node:path");
const { Worker, isMainThread, workerData, parentPort } = require("node:worker_threads");
const { Session } = require("ctxgen-runtime");

const ones = () => ({ x: { dims: [1, 8], data: new Float32Array(8).fill(1) } });
const refused = (code, work) => assert.throws(work, (error) => error.code === code || assert.fail(`${error.code}: ${error.message}, expected ${code}`));

const inWorker = (model) => new Promise((resolve, reject) => {
  const worker = new Worker(__filename, { workerData: model });
  worker.once("message", resolve).once("error", reject);
});

const checkKinds = (model) => {
  const session = new Session(model);
  const feeds = {
    s: { dims: [3], data: ["", "zero\0inside", "日本語 🧮"] },
    i: { dims: [3], data: new BigInt64Array([0n, -(2n ** 63n), 2n ** 63n - 1n]) },
    b: { type: "bool", dims: [3], data: new Uint8Array([0, 1, 1]) },
    h: { type: "float16", dims: [3], data: new Uint16Array([0, 0x3c00, 0x7e00]) },
  };
  const results = session.run(feeds);
  for (const [name, { type, data }] of Object.entries(feeds)) {
    const found = results[`${name}_out`];
    assert.deepStrictEqual([...found.data], [...data]);
    assert.strictEqual(found.type, type ?? { s: "string", i: "int64" }[name]);
  }
  const closing = { dims: [1], get data() { session.close(); return ["x"]; } };
  refused("INVALID_ARGUMENT", () => session.run({ ...feeds, s: closing }));
};

const main = async (model) => {
  checkKinds(path.join(path.dirname(model), "mixed.onnx"));
  const session = new Session(model, { threads: 1, config: { "session.disable_cpu_ep_fallback": "0" } });
  assert.deepStrictEqual(session.inputs, [{ name: "x", typeText: "float32[batch, 8]", dims: [-1, 8], hasDefault: false }]);
  const { y } = session.run(ones());
  assert.deepStrictEqual([y.type, y.dims, y.data.constructor], ["float32", [1, 8], Float32Array]);
  const twice = session.run({ x: { type: "float32", dims: [2, 8], data: new Float32Array(16).fill(1) } }).y;
  assert.deepStrictEqual([...twice.data.slice(8)], [...y.data]);
  assert.deepStrictEqual([...session.run({ x: { dims: [0, 8], data: new Float32Array(0) } }).y.dims], [0, 8]);

  refused("INVALID_ARGUMENT", () => session.run({}));
  refused("INVALID_ARGUMENT", () => session.run({ ...ones(), z: ones().x }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [1, 8], data: new Float32Array(7) } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [1, 8], data: new Float64Array(8) } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [-1, 8], data: new Float32Array(8) } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [1.5, 8], data: new Float32Array(12) } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [2 ** 31, 2 ** 31], data: new Float32Array(8) } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [1, 8], data: "eight" } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { type: "float33", dims: [1, 8], data: new Float32Array(8) } }));
  refused("INVALID_ARGUMENT", () => session.run({ x: { dims: [1, 8], data: Array(8).fill("a") } }));
  refused("INVALID_ARGUMENT", () => new Session(model, { thread: 1 }));
  refused("INVALID_ARGUMENT", () => new Session(`${model}\0`));
  refused("IO_ERROR", () => new Session(`${model}.none`));
  assert.deepStrictEqual([...session.run(ones()).y.data], [...y.data]); // after all that

  const results = await Promise.all([1, 2, 3, 4].map(() => inWorker(model)));
  for (const result of results) assert.deepStrictEqual([...result], [...y.data]);
  session.close();
  refused("INVALID_ARGUMENT", () => session.run(ones()));
  refused("INVALID_ARGUMENT", () => session.close());
  for (let i = 0; i < 200; ++i) new Session(model); // the garbage collector's
  console.log("types, 17 refusals, 4 workers, close");
};

if (isMainThread) main(path.join(process.argv[2], "classifier_ctx.onnx"));
else {
  const session = new Session(workerData);
  let y;
  for (let i = 0; i < 100; ++i) ({ y } = session.run(ones()));
  parentPort.postMessage(y.data);
}
