#!/usr/bin/env python3
"""The greedy loop of generate.c in stock ONNX Runtime: each run's caches are bound as inputs of the next one.

python3 onnxruntime_loop.py MODEL STEPS ID...
"""

import sys

import numpy as np
import onnxruntime


def main(model, steps, *prompt):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    inputs = {one.name: one for one in session.get_inputs()}
    caches = {}
    for name, one in inputs.items():
        if name.startswith("past"):
            caches[name] = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros([1, one.shape[1], 0, one.shape[3]], np.float32))
    tokens, past, made = [int(one) for one in prompt], 0, []
    for _ in range(int(steps)):
        binding = session.io_binding()
        places = {
            "input_ids": np.array([tokens[past:]], np.int64),
            "attention_mask": np.ones([1, len(tokens)], np.int64),
            "position_ids": np.arange(past, len(tokens), dtype=np.int64)[None],
        }
        for name, values in places.items():
            if name in inputs:
                binding.bind_cpu_input(name, values)
        for name, value in caches.items():
            binding.bind_ortvalue_input(name, value)
        for one in session.get_outputs():
            binding.bind_output(one.name)
        session.run_with_iobinding(binding)
        results = dict(zip([one.name for one in session.get_outputs()], binding.get_outputs(), strict=True))
        caches = {name: results[name.replace("past_key_values", "present")] for name in caches}
        past = len(tokens)
        tokens.append(int(results["logits"].numpy()[0, -1].argmax()))
        made.append(tokens[-1])
    print(*made)


if __name__ == "__main__":
    main(*sys.argv[1:])
