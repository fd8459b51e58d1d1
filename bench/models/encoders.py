"""ViT-B/16, CLIP's ViT-B/32 and DINOv2-S, as torch.onnx.export leaves the usual PyTorch implementations: static sizes, norms first."""

import numpy as np

from builder import normal
from layers import INIT_STD
from transformers import Transformer


class PreNormEncoder(Transformer):
    """Blocks of x + attention(norm(x)) and x + mlp(norm(x)) over [1, tokens, width]."""

    tokens = 0
    layers = 12
    epsilon = 1e-12
    norm_names = ("layernorm_before", "layernorm_after")
    projection_names = ("query", "key", "value", "output")

    def attention(self, x):
        """Written out; key before value before query, as these implementations compute them."""
        query_leaf, key_leaf, value_leaf, output_leaf = self.projection_names
        key = self.projected_heads(x, key_leaf, 0.05, perm=(0, 2, 3, 1))
        value = self.projected_heads(x, value_leaf)
        query = self.projected_heads(x, query_leaf, 0.05)
        joined = self.join_heads(self.eager_attention(query, key, value, self.head_size), self.tokens, self.width)
        return self.linear(joined, self.width, self.width, output_leaf)

    def projected_heads(self, x, leaf, std=INIT_STD, perm=(0, 2, 1, 3)):
        """Attention would be uniform if queries and keys had the usual standard deviation of 0.02."""
        return self.split_heads(self.linear(x, self.width, self.width, leaf, std=std), self.tokens, self.heads, self.head_size, perm)

    def sdpa_attention(self, x):
        """By F.scaled_dot_product_attention."""
        query_leaf, key_leaf, value_leaf, output_leaf = self.projection_names
        query, key = self.projected_heads(x, query_leaf, 0.05), self.projected_heads(x, key_leaf, 0.05)
        context = self.scaled_dot_product_attention(query, key, self.projected_heads(x, value_leaf), self.head_size)
        return self.linear(self.join_heads(context, self.tokens, self.width), self.width, self.width, output_leaf)

    def activation(self, x):
        return self.gelu(x)

    def scaled(self, x, _leaf):
        """What a branch is multiplied by before it is added."""
        return x

    def block(self, x):
        y = self.layer_norm(x, self.norm_names[0], self.epsilon)
        with self.scope("attention"):
            y = self.attention(y)
        x = self.node("Add", [self.scaled(y, "layer_scale1"), x])
        y = self.layer_norm(x, self.norm_names[1], self.epsilon)
        with self.scope("mlp"):
            y = self.activation(self.linear(y, self.width, 4 * self.width, "fc1", std=0.05))
            y = self.linear(y, 4 * self.width, self.width, "fc2")
        return self.node("Add", [self.scaled(y, "layer_scale2"), x])

    def blocks(self, x):
        for layer in range(self.layers):
            with self.scope("layers", f"layers.{layer}"):
                x = self.block(x)
        return x


class VisionEncoder(PreNormEncoder):
    """Square patches of an image of 224 x 224 pixels and a class token before them."""

    patch = 16
    patch_bias = True

    def __init__(self, name, opset, width, heads):
        super().__init__(name, opset, width, heads)
        self.tokens = (224 // self.patch) ** 2 + 1
        self.input("pixel_values", normal("pixel_values", (1, 3, 224, 224), 1.0))

    def patches(self):
        kernel = (self.patch, self.patch)
        x = self.conv("pixel_values", "projection", self.width, 3, kernel, stride=self.patch, bias=self.patch_bias)
        return self.transpose(self.reshape(x, 1, self.width, self.tokens - 1), 0, 2, 1)

    def class_token(self):
        return self.normal_weight("cls_token", (1, 1, self.width), INIT_STD)

    def position_embeddings(self):
        return self.normal_weight("position_embeddings", (1, self.tokens, self.width), INIT_STD)

    def embeddings(self):
        with self.scope("embeddings"):
            x = self.node("Concat", [self.class_token(), self.patches()], axis=1)
            return self.node("Add", [x, self.position_embeddings()])


class Vit(VisionEncoder):
    """google/vit-base-patch16-224."""

    def build(self):
        x = self.layer_norm(self.blocks(self.embeddings()), "layernorm", self.epsilon)
        self.output(self.gemm(self.first(x), self.width, 1000, "classifier"), "logits", [1, 1000])
        return self


class ClipVision(VisionEncoder):
    """openai/clip-vit-base-patch32: quick GELU, attention by one PyTorch function."""

    patch, patch_bias = 32, False
    epsilon = 1e-5
    norm_names = ("layer_norm1", "layer_norm2")
    projection_names = ("q_proj", "k_proj", "v_proj", "out_proj")

    def attention(self, x):
        return self.sdpa_attention(x)

    def activation(self, x):
        return self.node("Mul", [x, self.node("Sigmoid", [self.node("Mul", [x, self.constant(1.702)])])])

    def class_token(self):
        return self.node("Expand", [self.vector("class_embedding", self.width, INIT_STD), self.ints(1, 1, self.width)])

    def position_embeddings(self):
        ids = self.weight("position_ids", np.arange(self.tokens, dtype=np.int64)[None])
        return self.node("Gather", [self.table("position_embedding", self.tokens), ids])

    def build(self):
        x = self.blocks(self.layer_norm(self.embeddings(), "pre_layrnorm", self.epsilon))
        pooled = self.layer_norm(self.first(x), "post_layernorm", self.epsilon)
        self.output(x, "last_hidden_state", [1, self.tokens, self.width])
        self.output(pooled, "pooler_output", [1, self.width])
        return self


class Dino(VisionEncoder):
    """facebook/dinov2-small: trained on 37 x 37 patches, so the graph resizes its position embeddings; a scale for each branch."""

    patch = 14
    epsilon = 1e-6
    norm_names = ("norm1", "norm2")

    def attention(self, x):
        return self.sdpa_attention(x)

    def scaled(self, x, leaf):
        return self.node("Mul", [x, self.vector(f"{leaf}.lambda1", self.width, 0.1, 1.0)])

    def position_embeddings(self):
        side = 224 // self.patch
        classes = self.made_weight("Concat", normal("position_embeddings.class", (1, 1, self.width), INIT_STD))
        trained = self.made_weight("Resize", normal("position_embeddings.patches", (1, self.width, 37, 37), INIT_STD))
        sizes = self.node("Concat", [self.slice(self.node("Shape", [trained]), 0, end=2), self.ints(side, side)], axis=0)
        resized = self.node(
            "Resize", [trained, "", "", sizes], coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75, mode="cubic",
            nearest_mode="floor",
        )  # fmt: skip
        resized = self.reshape(self.transpose(resized, 0, 2, 3, 1), 1, -1, self.width)
        return self.node("Concat", [classes, resized], axis=1)

    def build(self):
        x = self.layer_norm(self.blocks(self.embeddings()), "layernorm", self.epsilon)
        pooled = self.first(x)
        self.output(x, "last_hidden_state", [1, self.tokens, self.width])
        self.output(pooled, "pooler_output", [1, self.width])
        return self


def vit_b_16(name, opset=17):
    return Vit(name, opset, width=768, heads=12).build()


def clip_vision(name, opset=17):
    return ClipVision(name, opset, width=768, heads=12).build()


def dinov2_s(name, opset=17):
    return Dino(name, opset, width=384, heads=6).build()
