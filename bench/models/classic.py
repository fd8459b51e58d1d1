"""ResNet-50, VGG-16 and MobileNetV2."""

from convnets import ConvNet


def resnet50(name, fold_batch_norm=True, opset=17):
    net = ConvNet(name, opset, fold_batch_norm=fold_batch_norm)
    x = net.relu(net.conv("input", 64, 7, "conv1", stride=2, pad=3, bn="bn1"), "relu")
    x = net.max_pool(x, "maxpool", kernel=3, stride=2, pad=1)
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for block in range(blocks):
            with net.scope(f"layer{stage}", str(block)):
                x = _bottleneck(net, x, width, stride=2 if stage > 1 and block == 0 else 1, project=block == 0)
    x = net.flatten(net.global_pool(x, "avgpool"), 2048)
    return net.finish(net.linear(x, 1000, "fc"))


def _bottleneck(net, x, width, stride, project):
    y = net.relu(net.conv(x, width, 1, "conv1", bn="bn1"), "relu")
    y = net.relu(net.conv(y, width, 3, "conv2", stride=stride, pad=1, bn="bn2"), "relu")
    # the gains keep the variance of the sums from doubling at each of the sixteen blocks
    y = net.conv(y, 4 * width, 1, "conv3", bn="bn3", gain=0.4)
    if project:
        x = net.conv(x, 4 * width, 1, "downsample.0", stride=stride, bn="downsample.1", gain=1.0)
    return net.relu(net.add(y, x), "relu")


def vgg16(name, opset=13):
    net = ConvNet(name, opset)
    x, index = "input", 0
    for stage in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
        for width in stage:
            with net.scope("features"):
                x = net.conv(x, width, 3, str(index), pad=1, bias=True)
                x = net.relu(x, str(index + 1))
            index += 2
        x = net.max_pool(x, "features", str(index), kernel=2, stride=2)
        index += 1
    x = net.average_pool(x, "avgpool", kernel=1, stride=1)  # the adaptive pool to 7x7, which already is 7x7
    x = net.flatten(x, 512 * 7 * 7)
    x = net.relu(net.linear(x, 4096, "classifier", "0", gain=2.0), "classifier", "1")
    x = net.relu(net.linear(x, 4096, "classifier", "3", gain=2.0), "classifier", "4")
    return net.finish(net.linear(x, 1000, "classifier", "6"))


# expansion, channels, blocks, stride of the first block
_INVERTED_RESIDUALS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenetv2(name, opset=13):
    net = ConvNet(name, opset)
    with net.scope("features", "0"):
        x = net.relu6(net.conv("input", 32, 3, "0", stride=2, pad=1, bn="1"), "2")
    index = 1
    for expansion, channels, blocks, first_stride in _INVERTED_RESIDUALS:
        for block in range(blocks):
            with net.scope("features", str(index)):
                x = _inverted_residual(net, x, channels, first_stride if block == 0 else 1, expansion)
            index += 1
    with net.scope("features", str(index)):
        x = net.relu6(net.conv(x, 1280, 1, "0", bn="1"), "2")
    x = net.flatten(net.global_pool(x), 1280)
    return net.finish(net.linear(x, 1000, "classifier", "1"))


def _inverted_residual(net, x, channels, stride, expansion):
    hidden = net.channels[x] * expansion
    y, position = x, 0
    with net.scope("conv"):
        if expansion != 1:
            with net.scope("0"):
                y = net.relu6(net.conv(y, hidden, 1, "0", bn="1"), "2")
            position = 1
        with net.scope(str(position)):
            y = net.relu6(net.conv(y, hidden, 3, "0", stride=stride, pad=1, group=hidden, bn="1"), "2")
        y = net.conv(y, channels, 1, str(position + 1), bn=str(position + 2), gain=1.0)
    return net.add(x, y) if stride == 1 and net.channels[x] == channels else y
