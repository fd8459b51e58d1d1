"""Operators in double precision, where onnx's reference evaluator has none, an incomplete or a wrong one."""

import itertools
import math

import numpy as np


def reals_of(x, scale, zero):
    return (x - zero) * np.float64(np.float32(scale))


def requantized(real, scale, zero):
    """To u8."""
    return np.clip(np.rint(real / np.float64(np.float32(scale))) + zero, 0, 255)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf)(x)


def unpacked_blocks(stored, scales, zeros, bits):
    """The matrix [N, K] of MatMulNBits; stored [N, blocks, bytes], zeros None, packed [N, bytes] or of the shape of scales, [N, blocks]."""

    def numbers(bytes_):
        return np.stack([bytes_ >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], -1).reshape(*bytes_.shape[:-1], -1)

    if zeros is None:
        zeros = np.full(scales.shape, 1 << bits - 1)
    elif zeros.dtype == np.uint8:
        zeros = numbers(zeros)[:, : scales.shape[1]]
    centred = numbers(stored).astype(np.float64) - zeros[..., None]
    return (centred * scales.astype(np.float64)[..., None]).reshape(len(stored), -1)


def turned(x, positions, cos, sin, neighbours):
    """Heads [..., rows, size] with pairs of their first elements turned by the angles of `positions` [rows]."""
    half = cos.shape[1]
    c, s = cos[positions], sin[positions]
    first, second = (x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]) if neighbours else (x[..., :half], x[..., half : 2 * half])
    pair = [first * c - second * s, first * s + second * c]
    joined = np.stack(pair, -1).reshape(*first.shape[:-1], 2 * half) if neighbours else np.concatenate(pair, -1)
    return np.concatenate([joined, x[..., 2 * half :]], -1)


def attended(q, k, v, hidden, scale, softcap=0, zero=False, added=0, sinks=None):
    """softmax(scale q k^T + added) v over the keys that `hidden` [queries, keys] leaves; zeros where it leaves none. `zero`, `sinks` [heads]: one more logit."""
    logits = scale * q @ np.swapaxes(k, -1, -2)
    if softcap:
        logits = softcap * np.tanh(logits / softcap)
    weights = np.where(hidden, 0, np.exp(logits + added))
    total = weights.sum(-1, keepdims=True) + (1 if zero else 0)
    if sinks is not None:
        total = total + np.exp(np.float64(sinks))[:, None, None]
    return np.where(total > 0, weights / np.where(total > 0, total, 1), 0) @ v


def group_query(q, k, v, past_key, past_value, last, total, caches=None, neighbours=False, window=0, causal=True, **options):
    """GroupQueryAttention over heads [B, heads, rows, size]: result [B, rows, heads * size], present key, present value."""
    batch, heads, rows, size = q.shape
    added = options.pop("added", 0)
    length = max(past_key.shape[2], total)
    result, presents = np.zeros((batch, rows, heads * size)), [np.zeros((batch, k.shape[1], length, size)) for _ in range(2)]
    for b in range(batch):
        before = 0 if rows == total else int(last[b]) + 1 - rows
        places = before + np.arange(rows)
        turn = (lambda x, at=places: turned(x, at, *caches, neighbours)) if caches else (lambda x: x)
        for present, past, new in zip(presents, (past_key, past_value), (turn(k[b]), v[b]), strict=True):
            present[b, :, :before] = past[b, :, :before]
            present[b, :, before : before + rows] = new
        distance = places[:, None] - np.arange(before + rows)
        hidden = ((distance < 0) & causal) | ((distance > window) if window else False)
        key, value = (np.repeat(present[b, :, : before + rows], heads // k.shape[1], 0) for present in presents)
        over = added[0, :, :, : before + rows] if np.ndim(added) else added
        result[b] = np.moveaxis(attended(turn(q[b]), key, value, hidden, added=over, **options), 0, 1).reshape(rows, -1)
    return [result, *presents]


def recurrence(q, k, v, state, factors, rates, scale):
    """LinearAttention of heads [B, T, heads, size] as states pass by: result [B, T, heads, width], state. `factors` [B, T, heads, 1 or size] and
    `rates` [B, T, heads] are None where there are none."""
    results = []
    for t in range(q.shape[1]):
        if factors is not None:
            state = state * factors[:, t, :, :, None]
        row = k[:, t, :, None, :]
        change = v[:, t] if rates is None else rates[:, t, :, None] * (v[:, t] - (row @ state)[:, :, 0])
        state = state + k[:, t, :, :, None] * change[:, :, None, :]
        results.append((q[:, t, :, None, :] @ state)[:, :, 0] * scale)
    return np.stack(results, 1), state


def rms(x, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def flattened_softmax(x, axis, logarithm):
    """Below opset 13: over all dims from axis on."""
    powers = np.exp(x).reshape(*x.shape[:axis], -1)
    result = powers / powers.sum(-1, keepdims=True)
    return (np.log(result) if logarithm else result).reshape(x.shape)


def local_response(x, size, alpha, beta, bias):
    before, after = (size - 1) // 2, size // 2
    squares = np.pad(x * x, [(0, 0), (before, after), (0, 0), (0, 0)])
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return x / (bias + alpha / size * sums) ** beta


def average_pool(x, kernel, strides, pads):
    """Two spatial dims; the pads count."""
    padded = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))
    return windows[:, :, :: strides[0], :: strides[1]].mean((4, 5))


def conv_transpose(x, weights, bias, group=1, strides=None, pads=None, output_padding=None):
    """Adds each input point's window to the output, then cuts the pads off."""
    spatial, kernel = x.shape[2:], weights.shape[2:]
    rank = len(spatial)
    strides, pads, extra = strides or [1] * rank, pads or [0] * 2 * rank, output_padding or [0] * rank
    whole = [(spatial[i] - 1) * strides[i] + kernel[i] + extra[i] for i in range(rank)]
    result = np.zeros((x.shape[0], weights.shape[1] * group, *whole))
    grouped = result.reshape(x.shape[0], group, weights.shape[1], *whole)
    values = x.reshape(x.shape[0], group, -1, *spatial)
    filters = weights.astype(np.float64).reshape(group, -1, *weights.shape[1:])
    for point in itertools.product(*map(range, spatial)):
        window = tuple(slice(p * s, p * s + k) for p, s, k in zip(point, strides, kernel))
        grouped[(..., *window)] += np.einsum("ngc,gcm...->ngm...", values[(..., *point)], filters)
    cut = tuple(slice(pads[i], whole[i] - pads[rank + i]) for i in range(rank))
    return result[(..., *cut)] + bias.reshape(-1, *[1] * rank)


def resized(x, scales, mode, half_pixel):
    """Over each axis by a matrix; nearest rounds down (asymmetric)."""
    for axis, scale in enumerate(scales):
        count = x.shape[axis]
        matrix = np.zeros((int(count * scale), count))
        for row, weights in enumerate(matrix):
            at = (row + 0.5) / scale - 0.5 if half_pixel else row / scale
            if mode == "nearest":
                weights[min(math.floor(at), count - 1)] = 1
                continue
            left = math.floor(at)
            weights[min(max(left, 0), count - 1)] += 1 - (at - left)
            weights[min(max(left + 1, 0), count - 1)] += at - left
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def lstm_cell(x, w, r, wb, rb, state, _linear):
    h, c = state
    i, o, f, g = np.split(x @ w.T + h @ r.T + wb + rb, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_cell(x, w, r, wb, rb, state, linear_before_reset):
    h = state[0]
    (wz, wr, wh), (rz, rr, rh), (bz, br, bh), (cz, cr, ch) = (np.split(one, 3) for one in (w, r, wb, rb))
    z, reset = sigmoid(x @ wz.T + h @ rz.T + bz + cz), sigmoid(x @ wr.T + h @ rr.T + br + cr)
    memory = reset * (h @ rh.T + ch) if linear_before_reset else (reset * h) @ rh.T + ch
    return (1 - z) * np.tanh(x @ wh.T + memory + bh) + z * h, state[1]


def rnn_cell(x, w, r, wb, rb, state, _linear):
    return np.tanh(x @ w.T + state[0] @ r.T + wb + rb), state[1]


def rounded_to_bytes(x):
    """As DynamicQuantizeLinear, back as real numbers."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32(high - low) / np.float32(255) if high > low else np.float32(1)
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * float(scale)


def dynamic_lstm(x, matrices, scales, b, h, c, direction):
    """Y and Y_h of a DynamicQuantizeLSTM: x is rounded as a whole, the state of all sequences in each step. Matrices [D, K, 4 H] less their
    zero points, scales [D, 1] or [D, 4 H]."""
    outputs, last, source = [], [], rounded_to_bytes(x)
    for d in range(b.shape[0]):
        backwards = direction == "reverse" or d == 1
        w, r = ((matrix[d] * scale[d]).T for matrix, scale in zip(matrices, scales))
        state, steps = (h[d], c[d]), []
        for step in source[::-1] if backwards else source:
            state = lstm_cell(step, w, r, *np.split(b[d], 2), (rounded_to_bytes(state[0]), state[1]), 0)
            steps.append(state[0])
        outputs.append(np.stack(steps[::-1] if backwards else steps))
        last.append(state[0])
    return [np.stack(outputs, 1), np.stack(last)]


CELLS = {"LSTM": lstm_cell, "GRU": gru_cell, "RNN": rnn_cell}


def recurrent(op_type, x, w, r, b, h, c, direction, linear_before_reset=0):
    """Y and Y_h. x [steps, batch, width]; w, r, b, h and c begin with the directions, as ONNX has them."""
    outputs, last = [], []
    for d in range(w.shape[0]):
        backwards = direction == "reverse" or d == 1
        state, steps = (h[d], c[d]), []
        wb, rb = np.split(b[d], 2)
        for step in x[::-1] if backwards else x:
            state = CELLS[op_type](step, w[d], r[d], wb, rb, state, linear_before_reset)
            steps.append(state[0])
        outputs.append(np.stack(steps[::-1] if backwards else steps))
        last.append(state[0])
    return [np.stack(outputs, 1), np.stack(last)]
