"use strict";

const native = require("./ctxgen.node");

// Names, numbers of TensorProto.DataType, arrays that hold the elements (null: texts).
const TYPES = [
  ["float32", 1, Float32Array], ["uint8", 2, Uint8Array], ["int8", 3, Int8Array], ["uint16", 4, Uint16Array], ["int16", 5, Int16Array],
  ["int32", 6, Int32Array], ["int64", 7, BigInt64Array], ["string", 8, null], ["bool", 9, Uint8Array], ["float16", 10, Uint16Array],
  ["float64", 11, Float64Array], ["uint32", 12, Uint32Array], ["uint64", 13, BigUint64Array], ["bfloat16", 16, Uint16Array],
];

const failure = (code, message) => Object.assign(new Error(message), { code });

const typeOf = (name, feed) => {
  const isText = Array.isArray(feed.data);
  const holds = ([, , array]) => (array === null ? isText : feed.data instanceof array);
  const type = feed.type === undefined ? TYPES.find(holds) : TYPES.find(([known]) => known === feed.type);
  if (!type) throw failure("INVALID_ARGUMENT", `input "${name}": ${feed.type === undefined ? "data is no typed array and no array of texts" : `no type "${feed.type}"`}`);
  if (!holds(type)) throw failure("INVALID_ARGUMENT", `input "${name}": ${type[0]} is given in ${type[2] === null ? "an array of texts" : `a ${type[2].name}`}`);
  return type[1];
};

const tensorOf = (name, [number, dims, data]) => {
  const type = TYPES.find(([, known]) => known === number);
  if (!type) throw failure("NOT_IMPLEMENTED", `output "${name}": elements of type ${number} of TensorProto.DataType`);
  return { type: type[0], dims, data: type[2] === null ? data : new type[2](data) };
};

class Session {
  #handle;

  constructor(path, options = {}) {
    const { threads = 0, config = {}, ...others } = options;
    if (Object.keys(others).length > 0) throw failure("INVALID_ARGUMENT", `no option "${Object.keys(others)[0]}" of a session`);
    this.#handle = native.open(String(path), threads, Object.entries(config).flat().map(String));
    [this.inputs, this.outputs] = native.describe(this.#handle);
  }

  run(feeds) {
    const values = this.inputs.map(({ name }) => {
      const feed = Object.hasOwn(feeds, name) ? feeds[name] : undefined;
      if (feed === undefined) return undefined;
      if (!Array.isArray(feed.dims)) throw failure("INVALID_ARGUMENT", `input "${name}": dims is no array`);
      return [typeOf(name, feed), [...feed.dims], Array.isArray(feed.data) ? [...feed.data] : feed.data];
    });
    const unknown = Object.keys(feeds).find((name) => !this.inputs.some((input) => input.name === name));
    if (unknown !== undefined) throw failure("INVALID_ARGUMENT", `no input "${unknown}"; there are: ${this.inputs.map(({ name }) => name).join(", ")}`);
    const results = native.run(this.#handle, values);
    return Object.fromEntries(this.outputs.map(({ name }, i) => [name, tensorOf(name, results[i])]));
  }

  close() {
    native.close(this.#handle);
  }
}

module.exports = { Session };
