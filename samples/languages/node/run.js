// npm install ctxgen-runtime-0.1.0.tgz && node run.js classifier_ctx.onnx
const { Session } = require("ctxgen-runtime");

const session = new Session(process.argv[2]);
const { y } = session.run({ x: { dims: [1, 8], data: new Float32Array(8).fill(1) } });
console.log(Array.from(y.data, (value) => value.toFixed(4)).join(" "));
