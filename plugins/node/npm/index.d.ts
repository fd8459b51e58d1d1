export type TensorType =
  | "float32" | "uint8" | "int8" | "uint16" | "int16" | "int32" | "int64" | "string" | "bool" | "float16" | "float64" | "uint32" | "uint64" | "bfloat16";

export type TensorData =
  | Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array | string[];

/** Dense and row-major. */
export interface Tensor {
  type: TensorType;
  dims: number[];
  data: TensorData;
}

/** Without `type` the array says it. */
export type Feed = Omit<Tensor, "type"> & Partial<Pick<Tensor, "type">>;

export interface ValueInfo {
  name: string;
  /** "float32[batch, 8]" */
  typeText: string;
  /** -1: not fixed; null: the model does not say. */
  dims: number[] | null;
  /** An input that may be left out. */
  hasDefault: boolean;
}

export interface SessionOptions {
  /** Threads of one run; 0 (the default): the physical cores that the process may use. */
  threads?: number;
  /** ONNX Runtime's session keys that ctxgen knows. */
  config?: Record<string, string>;
}

export class Session {
  constructor(path: string, options?: SessionOptions);
  readonly inputs: ValueInfo[];
  readonly outputs: ValueInfo[];
  /** Computes all outputs. Arrays are read during the call only. */
  run(feeds: Record<string, Feed>): Record<string, Tensor>;
  /** Gives memory back; the session cannot be used any more. */
  close(): void;
}
