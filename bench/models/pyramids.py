"""Swin-T, ConvNeXt-T and SegFormer-B0: four stages, each half as high and wide as the one before, as torch.onnx.export leaves them."""

import numpy as np
from onnx import TensorProto, numpy_helper

from builder import normal
from layers import Layers


class Pyramid(Layers):
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    epsilon = 1e-6

    def __init__(self, name, opset, size=224):
        super().__init__(name, opset)
        self.size = size
        self.input("input", normal("input", (1, 3, size, size), 1.0))

    def to_last(self, x):
        return self.transpose(x, 0, 2, 3, 1)

    def to_first(self, x):
        return self.transpose(x, 0, 3, 1, 2)

    def mlp(self, x, width, leaves):
        y = self.gelu(self.linear(x, width, 4 * width, leaves[0], std=0.05))
        return self.linear(y, 4 * width, width, leaves[1], std=0.05)

    def pooled_head(self, x, norm=None):
        """Classes of the mean over a [1, C, H, W] map."""
        with self.scope("avgpool"):
            x = self.node("GlobalAveragePool", [x])
        if norm:
            x = norm(x)
        self.output(self.gemm(self.node("Flatten", [x], axis=1), self.widths[-1], 1000, "head"), "output", [1, 1000])
        return self


# ---- Swin --------------------------------------------------------------------------------------------------------------


class Swin(Pyramid):
    """torchvision's swin_t: attention in windows of 7 x 7 pixels, which every second block shifts by 3."""

    widths, depths, head_counts = (96, 192, 384, 768), (2, 2, 6, 2), (3, 6, 12, 24)
    epsilon = 1e-5
    window, shift, head_size = 7, 3, 32

    def build(self):
        x = self.to_last(self.conv("input", "features.0.0", self.widths[0], 3, (4, 4), stride=4))
        x, side = self.layer_norm(x, "features.0.2", self.epsilon, self.widths[0]), self.size // 4
        for stage, (width, depth, heads) in enumerate(zip(self.widths, self.depths, self.head_counts, strict=True)):
            if stage:
                with self.scope("features", str(2 * stage)):
                    x, side = self.merge_patches(x, width // 2), side // 2
            for block in range(depth):
                with self.scope("features", str(2 * stage + 1), str(block)):
                    shift = self.shift if block % 2 and side > self.window else 0
                    x = self.block(x, width, heads, side, shift)
        return self.pooled_head(self.to_first(self.layer_norm(x, "norm", self.epsilon, width)))

    def block(self, x, width, heads, side, shift):
        y = self.layer_norm(x, "norm1", self.epsilon, width)
        with self.scope("attn"):
            x = self.node("Add", [x, self.window_attention(y, width, heads, side, shift)])
        y = self.layer_norm(x, "norm2", self.epsilon, width)
        with self.scope("mlp"):
            return self.node("Add", [x, self.mlp(y, width, ("0", "3"))])

    def pad_by_none(self, x):
        """F.pad by the rest of a window, which is 0 here: the chain that turns PyTorch's order of pads into ONNX's stays."""
        pads, rest = self.ints(0, 0, 0, 0, 0, 0), self.node("ConstantOfShape", [self.ints(2)], value=numpy_helper.from_array(np.zeros(1, np.int64)))
        pads = self.reshape(self.node("Concat", [pads, rest], axis=0), -1, 2)
        pads = self.transpose(self.slice(pads, 0, start=-1, end=-(2**63) + 1, step=-1), 1, 0)
        return self.node("Pad", [x, self.node("Cast", [self.reshape(pads, -1)], to=TensorProto.INT64), self.constant(0.0)], mode="constant")

    def roll(self, x, shift):
        """torch.roll by `shift` on both axes of [1, H, W, C]: two slices and a Concat for each."""
        for axis in (1, 2):
            x = self.node("Concat", [self.slice(x, axis, start=-shift), self.slice(x, axis, end=-shift)], axis=axis)
        return x

    def window_attention(self, x, width, heads, side, shift):
        count, window, area = side // self.window, self.window, self.window**2
        x = self.pad_by_none(x)
        if shift:
            x = self.roll(x, -shift)
        x = self.transpose(self.reshape(x, 1, count, window, count, window, width), 0, 1, 3, 2, 4, 5)
        x = self.reshape(x, count**2, area, width)
        x = self.reshape(self.linear(x, width, 3 * width, "qkv", std=0.05), count**2, area, 3, heads, self.head_size)
        x = self.transpose(x, 2, 0, 3, 1, 4)
        query, key, value = (self.node("Gather", [x, self.constant(part, np.int64)], axis=0) for part in range(3))
        query = self.node("Mul", [query, self.constant(self.head_size**-0.5)])
        scores = self.node("MatMul", [query, self.transpose(key, 0, 1, 3, 2)])
        scores = self.node("Add", [scores, self.position_bias(heads)])
        if shift:
            wide = self.reshape(scores, 1, count**2, heads, area, area)
            scores = self.reshape(self.node("Add", [wide, self.shift_mask(side, shift)]), -1, heads, area, area)
        x = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), value])
        x = self.linear(self.reshape(self.transpose(x, 0, 2, 1, 3), count**2, area, width), width, width, "proj", std=0.05)
        x = self.transpose(self.reshape(x, 1, count, count, window, window, width), 0, 1, 3, 2, 4, 5)
        x = self.reshape(x, 1, side, side, width)
        if shift:
            x = self.roll(x, shift)
        return self.slice(self.slice(x, 1, end=side), 2, end=side)  # without the padding

    def position_bias(self, heads):
        """The table of relative positions at the index, which the exporter folds."""
        window = self.window
        table = normal(self.parameter_name("relative_position_bias_table"), ((2 * window - 1) ** 2, heads), 0.5)
        y, x = np.divmod(np.arange(window**2), window)
        index = (y[:, None] - y + window - 1) * (2 * window - 1) + x[:, None] - x + window - 1
        return self.made_weight("Add", np.ascontiguousarray(table[index].transpose(2, 0, 1)[None]))

    def shift_mask(self, side, shift):
        """-100 between pixels of a window that were no neighbours before the shift."""
        region = np.digitize(np.arange(side), (side - self.window, side - shift))
        parts = (3 * region[:, None] + region).reshape(side // self.window, self.window, -1, self.window)
        parts = parts.transpose(0, 2, 1, 3).reshape(-1, self.window**2)
        mask = np.where(parts[:, None] != parts[:, :, None], np.float32(-100), np.float32(0))
        return self.made_weight("Add", mask[None, :, None])

    def merge_patches(self, x, width):
        x = self.pad_by_none(x)
        parts = [self.slice(self.slice(x, 1, row, step=2), 2, column, step=2) for column in (0, 1) for row in (0, 1)]
        x = self.layer_norm(self.node("Concat", parts, axis=-1), "norm", self.epsilon, 4 * width)
        return self.linear(x, 4 * width, 2 * width, "reduction", bias=False)


# ---- ConvNeXt ----------------------------------------------------------------------------------------------------------


class ConvNext(Pyramid):
    """torchvision's convnext_tiny."""

    widths, depths = (96, 192, 384, 768), (3, 3, 9, 3)

    def norm_2d(self, x, leaf, width):
        return self.to_first(self.layer_norm(self.to_last(x), leaf, self.epsilon, width))

    def build(self):
        x = self.norm_2d(self.conv("input", "features.0.0", self.widths[0], 3, (4, 4), stride=4), "features.0.1", self.widths[0])
        for stage, (width, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            if stage:
                with self.scope("features", str(2 * stage)):
                    x = self.conv(self.norm_2d(x, "0", width // 2), "1", width, width // 2, (2, 2), stride=2)
            for block in range(depth):
                with self.scope("features", str(2 * stage + 1), str(block)):
                    x = self.block(x, width)
        return self.pooled_head(x, norm=lambda y: self.norm_2d(y, "classifier.0", width))

    def block(self, x, width):
        with self.scope("block"):
            y = self.layer_norm(self.to_last(self.conv(x, "0", width, width, (7, 7), pad=3, group=width)), "2", self.epsilon, width)
            y = self.to_first(self.mlp(y, width, ("3", "5")))
        scale = self.normal_weight("layer_scale", (width, 1, 1), 0.05, 0.3)
        return self.node("Add", [self.node("Mul", [scale, y]), x])


# ---- SegFormer ---------------------------------------------------------------------------------------------------------


class Segformer(Pyramid):
    """nvidia/segformer-b0-finetuned-ade-512-512: keys and values of fewer pixels, a depthwise convolution inside of each MLP."""

    widths, depths, head_counts, reductions = (32, 64, 160, 256), (2, 2, 2, 2), (1, 2, 5, 8), (8, 4, 2, 1)
    decoder_width, classes = 256, 150

    def build(self):
        x, side, inputs, stages = "input", self.size, 3, []
        for stage, (width, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            kernel, stride = (7, 4) if stage == 0 else (3, 2)
            with self.scope(f"patch_embeddings.{stage}"):
                x = self.conv(x, "proj", width, inputs, (kernel, kernel), stride=stride, pad=kernel // 2)
                side, inputs = side // stride, width
                x = self.layer_norm(self.to_tokens(x, width), "layer_norm", self.epsilon, width)
            for block in range(depth):
                with self.scope(f"block.{stage}.{block}"):
                    x = self.block(x, width, side, self.head_counts[stage], self.reductions[stage])
            x = self.layer_norm(x, f"layer_norm.{stage}", self.epsilon, width)
            x = self.to_first(self.reshape(x, 1, side, side, width))
            stages.append((x, width, side))
        return self.decoder(stages)

    def to_tokens(self, x, width):
        return self.transpose(self.reshape(x, 1, width, -1), 0, 2, 1)

    def to_map(self, x, width, side):
        return self.reshape(self.transpose(x, 0, 2, 1), 1, width, side, side)

    def block(self, x, width, side, heads, reduction):
        y = self.layer_norm(x, "layer_norm_1", self.epsilon, width)
        with self.scope("attention"):
            x = self.node("Add", [self.attention(y, width, side, heads, reduction), x])
        y = self.layer_norm(x, "layer_norm_2", self.epsilon, width)
        with self.scope("mlp"):
            y = self.to_map(self.linear(y, width, 4 * width, "dense1", std=0.1), 4 * width, side)
            y = self.conv(y, "dwconv.dwconv", 4 * width, 4 * width, (3, 3), pad=1, group=4 * width)
            y = self.linear(self.gelu(self.to_tokens(y, 4 * width)), 4 * width, width, "dense2", std=0.1)
        return self.node("Add", [y, x])

    def attention(self, x, width, side, heads, reduction):
        def split(value, leaf, tokens, perm=(0, 2, 1, 3)):
            return self.split_heads(self.linear(value, width, width, leaf, std=0.1), tokens, heads, width // heads, perm)

        query, few = split(x, "query", side**2), x
        if reduction > 1:
            few = self.conv(self.to_map(x, width, side), "sr", width, width, (reduction, reduction), stride=reduction)
            few = self.layer_norm(self.to_tokens(few, width), "layer_norm", self.epsilon, width)
        count = (side // reduction) ** 2
        key, value = split(few, "key", count, perm=(0, 2, 3, 1)), split(few, "value", count)
        context = self.eager_attention(query, key, value, width // heads)
        return self.linear(self.join_heads(context, side**2, width), width, width, "dense", std=0.1)

    def decoder(self, stages):
        """Every stage at the size of the first, the last stage first."""
        largest, maps = stages[0][2], []
        for index, (x, width, side) in enumerate(stages):
            with self.scope("decode_head", f"linear_c.{index}"):
                x = self.linear(self.to_tokens(x, width), width, self.decoder_width, "proj", std=0.1)
                x = self.to_map(x, self.decoder_width, side)
            sizes = self.node("Concat", [self.slice(self.node("Shape", [x]), 0, end=2), self.ints(largest, largest)], axis=0)
            maps.append(
                self.node(
                    "Resize", [x, "", "", sizes], coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75,
                    mode="linear", nearest_mode="floor",
                )  # fmt: skip
            )
        with self.scope("decode_head"):
            x = self.node("Concat", maps[::-1], axis=1)
            x = self.conv(x, "linear_fuse", self.decoder_width, 4 * self.decoder_width, (1, 1))  # its norm is folded in
            x = self.conv(self.node("Relu", [x]), "classifier", self.classes, self.decoder_width, (1, 1))
        self.output(x, "logits", [1, self.classes, largest, largest])
        return self


def swin_t(name, opset=17):
    return Swin(name, opset).build()


def convnext_t(name, opset=17):
    return ConvNext(name, opset).build()


def segformer_b0(name, opset=17):
    return Segformer(name, opset, size=512).build()
