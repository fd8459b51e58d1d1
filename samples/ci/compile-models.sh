#!/bin/sh
# A CI step: compiles each model of a folder into another one that the CI keeps between runs.
#
#   compile-models.sh MODELS OUT [OPTIONS OF ctxgen compile...]
#
# A model whose context model is current costs one pass over its bytes (--if-needed). The reports say what was done and why something
# fell back to the CPU; `verify` holds what is there against its source. Any failure ends the step with the status of ctxgen.
set -eu
models=$1 out=$2
shift 2
ctxgen=${CTXGEN:-ctxgen}
mkdir -p "$out"
for model in "$models"/*.onnx; do
  name=$(basename "$model" .onnx)
  "$ctxgen" compile "$model" -o "$out/${name}_ctx.onnx" --if-needed --report "$out/$name.json" "$@"
  "$ctxgen" verify "$out/${name}_ctx.onnx" --against "$model" -q
done
