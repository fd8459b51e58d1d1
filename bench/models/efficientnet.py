"""EfficientNet-B0 of torchvision: inverted residuals with squeeze-and-excite, SiLU as Sigmoid and Mul."""

from convnets import ConvNet

# expansion, kernel, stride of the first block, channels, blocks
_STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip
_SILU_GAIN = 2.8  # keeps the variance: the mean square of SiLU of a normal variable is 0.36


def efficientnet_b0(name, opset=17):
    net = ConvNet(name, opset)
    with net.scope("features", "0"):
        x = _unit(net, "input", 32, 3, 0, stride=2)
    for index, (expansion, kernel, first_stride, channels, blocks) in enumerate(_STAGES, start=1):
        for block in range(blocks):
            with net.scope("features", str(index), str(block)):
                x = _block(net, x, expansion, kernel, first_stride if block == 0 else 1, channels)
    with net.scope("features", "8"):
        x = _unit(net, x, 1280, 1, 0)
    x = net.flatten(net.global_pool(x, "avgpool"), 1280)
    return net.finish(net.linear(x, 1000, "classifier", "1"))


def _unit(net, x, out, kernel, index, stride=1, group=1):
    y = net.conv(x, out, kernel, str(index), stride=stride, pad=kernel // 2, group=group, bn=str(index + 1), gain=_SILU_GAIN)
    return net.silu(y, str(index + 2))


def _block(net, x, expansion, kernel, stride, channels):
    hidden, y, position = net.channels[x] * expansion, x, 0
    with net.scope("block"):
        if expansion != 1:
            with net.scope("0"):
                y = _unit(net, y, hidden, 1, 0)
            position = 1
        with net.scope(str(position)):
            y = _unit(net, y, hidden, kernel, 0, stride=stride, group=hidden)
        with net.scope(str(position + 1)):
            y = _squeeze_and_excite(net, y, net.channels[x] // 4)
        # halved by the gates on average, and not followed by SiLU
        with net.scope(str(position + 2)):
            y = net.conv(y, channels, 1, "0", bn="1", gain=1.5)
    return net.add(y, x) if stride == 1 and net.channels[x] == channels else y


def _squeeze_and_excite(net, x, squeezed):
    y = net.silu(net.conv(net.global_pool(x, "avgpool"), squeezed, 1, "fc1", bias=True), "activation")
    y = net.conv(y, net.channels[x], 1, "fc2", bias=True)
    with net.scope("scale_activation"):
        y = net.node("Sigmoid", [y])
    return net.mul(x, y)
