"""The U-Net of latent diffusion in the structure of diffusers' UNet2DConditionModel, with fewer channels than Stable Diffusion has."""

import math

import numpy as np
from onnx import TensorProto

from builder import normal
from layers import Layers

_GROUPS, _HEADS = 32, 8
_TEXT_WIDTH, _TEXT_TOKENS = 512, 77


class UNet(Layers):
    widths = (128, 256, 256)
    attends = (False, True, True)  # per level
    side = 32

    def __init__(self, name, opset):
        super().__init__(name, opset)
        self.input("sample", normal("sample", (1, 4, self.side, self.side), 1.0))
        self.input("timestep", np.array([500], dtype=np.int64))
        self.input("encoder_hidden_states", normal("encoder_hidden_states", (1, _TEXT_TOKENS, _TEXT_WIDTH), 1.0))

    def build(self):
        self.time = self.time_embedding()
        x = self.conv("sample", "conv_in", self.widths[0], 4, (3, 3), pad=1)
        x, channels, side, skips = self.down(x)
        with self.scope("mid_block"):
            x = self.resnet(x, channels, channels, "resnets.0")
            x = self.transformer(x, channels, side, "attentions.0")
            x = self.resnet(x, channels, channels, "resnets.1")
        x = self.up(x, channels, side, skips)
        x = self.silu(self.group_norm(x, "conv_norm_out", _GROUPS, self.widths[0]))
        self.output(self.conv(x, "conv_out", 4, self.widths[0], (3, 3), pad=1), "out_sample", [1, 4, self.side, self.side])
        return self

    def time_embedding(self):
        """Cosines and sines of the step, through two layers."""
        half, wide = self.widths[0] // 2, 4 * self.widths[0]
        with self.scope("time_proj"):
            steps = self.node("Cast", [self.unsqueeze("timestep", 1)], to=TensorProto.FLOAT)
            angles = self.node("Mul", [steps, self.constant(np.exp(-math.log(10000) * np.arange(half) / half)[None])])
            both = self.node("Concat", [self.node("Sin", [angles]), self.node("Cos", [angles])], axis=-1)
            both = self.node("Concat", [self.slice(both, 1, start=half), self.slice(both, 1, end=half)], axis=-1)
        with self.scope("time_embedding"):
            x = self.silu(self.gemm(both, self.widths[0], wide, "linear_1", std=0.1))
            return self.gemm(x, wide, wide, "linear_2", std=0.05)

    # ---- levels ---------------------------------------------------------------------------------------------------

    def down(self, x):
        """Also what the way up reads: a (value, channels) of every step."""
        channels, side, skips = self.widths[0], self.side, [(x, self.widths[0])]
        for level, (width, attends) in enumerate(zip(self.widths, self.attends, strict=True)):
            with self.scope(f"down_blocks.{level}"):
                for index in range(2):
                    x, channels = self.resnet(x, channels, width, f"resnets.{index}"), width
                    if attends:
                        x = self.transformer(x, width, side, f"attentions.{index}")
                    skips.append((x, width))
                if level + 1 < len(self.widths):
                    x, side = self.conv(x, "downsamplers.0.conv", width, width, (3, 3), stride=2, pad=1), side // 2
                    skips.append((x, width))
        return x, channels, side, skips

    def up(self, x, channels, side, skips):
        for level, width in enumerate(reversed(self.widths)):
            with self.scope(f"up_blocks.{level}"):
                for index in range(3):
                    skip, more = skips.pop()
                    x = self.node("Concat", [x, skip], axis=1)
                    x, channels = self.resnet(x, channels + more, width, f"resnets.{index}"), width
                    if self.attends[-1 - level]:
                        x = self.transformer(x, width, side, f"attentions.{index}")
                if level + 1 < len(self.widths):
                    x, side = self.upsample(x, width), 2 * side
        return x

    def upsample(self, x, width):
        with self.scope("upsamplers.0"):
            scales = self.constant([1.0, 1.0, 2.0, 2.0])
            x = self.node("Resize", [x, "", scales], coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
            return self.conv(x, "conv", width, width, (3, 3), pad=1)

    # ---- blocks ---------------------------------------------------------------------------------------------------

    def resnet(self, x, channels, out, leaf):
        with self.scope(leaf):
            y = self.silu(self.group_norm(x, "norm1", _GROUPS, channels))
            y = self.conv(y, "conv1", out, channels, (3, 3), pad=1, gain=2.0)
            time = self.gemm(self.silu(self.time), 4 * self.widths[0], out, "time_emb_proj", std=0.05)
            y = self.node("Add", [y, self.unsqueeze(self.unsqueeze(time, 2), 3)])
            y = self.conv(self.silu(self.group_norm(y, "norm2", _GROUPS, out)), "conv2", out, out, (3, 3), pad=1)
            if channels != out:
                x = self.conv(x, "conv_shortcut", out, channels, (1, 1))
            return self.node("Div", [self.node("Add", [x, y]), self.constant(1.0)])  # output_scale_factor

    def transformer(self, x, width, side, leaf):
        """Attention among pixels, then to the text, then a gated MLP."""
        with self.scope(leaf):
            y = self.conv(self.group_norm(x, "norm", _GROUPS, width, epsilon=1e-6), "proj_in", width, width, (1, 1))
            y = self.reshape(self.transpose(y, 0, 2, 3, 1), 1, side**2, width)
            with self.scope("transformer_blocks.0"):
                normed = self.layer_norm(y, "norm1", 1e-5, width)
                y = self.node("Add", [self.attention(normed, normed, width, width, side**2, side**2, "attn1"), y])
                normed = self.layer_norm(y, "norm2", 1e-5, width)
                text = "encoder_hidden_states"
                y = self.node("Add", [self.attention(normed, text, width, _TEXT_WIDTH, side**2, _TEXT_TOKENS, "attn2"), y])
                y = self.node("Add", [self.gated_mlp(self.layer_norm(y, "norm3", 1e-5, width), width), y])
            y = self.transpose(self.reshape(y, 1, side, side, width), 0, 3, 1, 2)
            return self.node("Add", [self.conv(y, "proj_out", width, width, (1, 1)), x])

    def attention(self, x, source, width, source_width, tokens, source_tokens, leaf):
        size = width // _HEADS

        def heads(value, inputs, count, projection):
            return self.split_heads(self.linear(value, inputs, width, projection, 0.08, bias=False), count, _HEADS, size)

        with self.scope(leaf):
            query = heads(x, width, tokens, "to_q")
            key, value = heads(source, source_width, source_tokens, "to_k"), heads(source, source_width, source_tokens, "to_v")
            y = self.join_heads(self.scaled_dot_product_attention(query, key, value, size), tokens, width)
            return self.linear(y, width, width, "to_out.0", 0.05)

    def gated_mlp(self, x, width):
        with self.scope("ff"):
            both = self.linear(x, width, 8 * width, "net.0.proj", 0.08)
            value, gate = self.node("Split", [both, self.ints(4 * width, 4 * width)], 2, axis=-1)
            return self.linear(self.node("Mul", [value, self.gelu(gate)]), 4 * width, width, "net.2", 0.05)


def unet_attention(name, opset=17):
    return UNet(name, opset).build()
