"""The encoder of Whisper tiny and wav2vec2-base, as torch.onnx.export leaves the usual PyTorch implementations: static sizes."""

from builder import normal
from encoders import PreNormEncoder


class WhisperEncoder(PreNormEncoder):
    """openai/whisper-tiny: 30 s of sound as 3000 frames of 80 mel bands."""

    tokens = 1500
    layers = 4
    epsilon = 1e-5
    norm_names = ("self_attn_layer_norm", "final_layer_norm")

    def __init__(self, name, opset):
        super().__init__(name, opset, width=384, heads=6)
        self.input("input_features", normal("input_features", (1, 80, 3000), 1.0))

    def build(self):
        x = self.gelu(self.conv("input_features", "conv1", self.width, 80, (3,), pad=1))
        x = self.gelu(self.conv(x, "conv2", self.width, self.width, (3,), stride=2, pad=1))
        positions = self.normal_weight("embed_positions.weight", (self.tokens, self.width), 0.1)
        x = self.node("Add", [self.transpose(x, 0, 2, 1), positions])
        self.output(self.layer_norm(self.blocks(x), "layer_norm", self.epsilon), "last_hidden_state", [1, self.tokens, self.width])
        return self


class Wav2Vec2(PreNormEncoder):
    """facebook/wav2vec2-base on 2 s of sound at 16 kHz: convolutions over the wave, then layers whose norms come last."""

    samples = 32000
    epsilon = 1e-5
    norm_names = ("layer_norm", "final_layer_norm")
    projection_names = ("q_proj", "k_proj", "v_proj", "out_proj")
    kernels = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))  # and strides
    channels = 512

    def __init__(self, name, opset):
        super().__init__(name, opset, width=768, heads=12)
        self.tokens = self.samples
        for kernel, stride in self.kernels:
            self.tokens = (self.tokens - kernel) // stride + 1
        self.input("input_values", normal("input_values", (1, self.samples), 1.0))

    def attention(self, x):
        return self.sdpa_attention(x)

    def features(self):
        x, channels = self.unsqueeze("input_values", 1), 1
        for index, (kernel, stride) in enumerate(self.kernels):
            with self.scope("feature_extractor", f"conv_layers.{index}"):
                x = self.conv(x, "conv", self.channels, channels, (kernel,), stride=stride, bias=False, gain=2.0)
                if index == 0:
                    x = self.group_norm(x, "layer_norm", self.channels, self.channels, spatial_axes=1)
                x, channels = self.gelu(x), self.channels
        with self.scope("feature_projection"):
            x = self.layer_norm(self.transpose(x, 0, 2, 1), "layer_norm", self.epsilon, self.channels)
            return self.linear(x, self.channels, self.width, "projection", std=0.05)

    def positions(self, x):
        """A grouped convolution of 128 taps; its even padding makes one frame too many, which is cut off."""
        with self.scope("pos_conv_embed"):
            y = self.conv(self.transpose(x, 0, 2, 1), "conv", self.width, self.width, (128,), pad=64, group=16)
            y = self.gelu(self.slice(y, 2, end=-1))
            return self.transpose(y, 0, 2, 1)

    def block(self, x):
        with self.scope("attention"):
            y = self.attention(x)
        x = self.layer_norm(self.node("Add", [x, y]), self.norm_names[0], self.epsilon)
        with self.scope("feed_forward"):
            y = self.gelu(self.linear(x, self.width, 4 * self.width, "intermediate_dense", std=0.05))
            y = self.linear(y, 4 * self.width, self.width, "output_dense")
        return self.layer_norm(self.node("Add", [x, y]), self.norm_names[1], self.epsilon)

    def build(self):
        x = self.features()
        with self.scope("encoder"):
            x = self.layer_norm(self.node("Add", [x, self.positions(x)]), "layer_norm", self.epsilon)
            x = self.blocks(x)
        self.output(x, "last_hidden_state", [1, self.tokens, self.width])
        return self


def whisper_tiny_encoder(name, opset=17):
    return WhisperEncoder(name, opset).build()


def wav2vec2_base(name, opset=17):
    return Wav2Vec2(name, opset).build()
