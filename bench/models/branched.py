"""DenseNet-121 and Inception-v3: networks whose branches meet in Concat."""

from convnets import ConvNet


def densenet121(name, opset=17):
    """Norms that follow a Concat stay in the graph: only the one between a layer's two convolutions can be folded."""
    net = ConvNet(name, opset)
    with net.scope("features"):
        x = net.relu(net.conv("input", 64, 7, "conv0", stride=2, pad=3, bn="norm0"), "relu0")
        x = net.max_pool(x, "pool0", kernel=3, stride=2, pad=1)
        for stage, layers in enumerate((6, 12, 24, 16), start=1):
            x = _dense_block(net, x, stage, layers)
            if stage < 4:
                with net.scope(f"transition{stage}"):
                    x = net.relu(net.batch_norm(x, "norm"), "relu")
                    x = net.conv(x, net.channels[x] // 2, 1, "conv")
                    x = net.average_pool(x, "pool", kernel=2, stride=2)
        x = net.batch_norm(x, "norm5")
    x = net.flatten(net.global_pool(net.relu(x)), 1024)
    return net.finish(net.linear(x, 1000, "classifier"))


def _dense_block(net, x, stage, layers, growth=32):
    features = [x]
    with net.scope(f"denseblock{stage}"):
        for layer in range(1, layers + 1):
            with net.scope(f"denselayer{layer}"):
                y = net.concat(features)  # of one value in the first layer, as torch writes it
                y = net.relu(net.batch_norm(y, "norm1"), "relu1")
                y = net.relu(net.conv(y, 4 * growth, 1, "conv1", bn="norm2"), "relu2")
                features.append(net.conv(y, growth, 3, "conv2", pad=1))
        return net.concat(features)


def inception_v3(name, opset=15):
    net = ConvNet(name, opset, size=299, bn_epsilon=1e-3)
    x = _unit(net, "input", 32, 3, "Conv2d_1a_3x3", stride=2)
    x = _unit(net, x, 32, 3, "Conv2d_2a_3x3")
    x = _unit(net, x, 64, 3, "Conv2d_2b_3x3", pad=1)
    x = net.max_pool(x, "maxpool1", kernel=3, stride=2)
    x = _unit(net, x, 80, 1, "Conv2d_3b_1x1")
    x = _unit(net, x, 192, 3, "Conv2d_4a_3x3")
    x = net.max_pool(x, "maxpool2", kernel=3, stride=2)
    for block, pooled in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        with net.scope(block):
            x = _block_a(net, x, pooled)
    with net.scope("Mixed_6a"):
        x = _block_b(net, x)
    for block, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        with net.scope(block):
            x = _block_c(net, x, width)
    with net.scope("Mixed_7a"):
        x = _block_d(net, x)
    for block in ("Mixed_7b", "Mixed_7c"):
        with net.scope(block):
            x = _block_e(net, x)
    x = net.flatten(net.global_pool(x, "avgpool"), 2048)
    return net.finish(net.linear(x, 1000, "fc"))


def _unit(net, x, out, kernel, leaf, stride=1, pad=0):
    with net.scope(leaf):
        return net.relu(net.conv(x, out, kernel, "conv", stride=stride, pad=pad, bn="bn"))


def _chain(net, x, *units):
    """Units of (channels, kernel, leaf) with the padding that keeps the size."""
    for out, kernel, leaf in units:
        pad = tuple(k // 2 for k in kernel) if isinstance(kernel, tuple) else kernel // 2
        x = _unit(net, x, out, kernel, leaf, pad=pad)
    return x


def _pool_branch(net, x, out):
    return _unit(net, net.average_pool(x, kernel=3, stride=1, pad=1), out, 1, "branch_pool")


def _block_a(net, x, pooled):
    b1 = _chain(net, x, (64, 1, "branch1x1"))
    b5 = _chain(net, x, (48, 1, "branch5x5_1"), (64, 5, "branch5x5_2"))
    b3 = _chain(net, x, (64, 1, "branch3x3dbl_1"), (96, 3, "branch3x3dbl_2"), (96, 3, "branch3x3dbl_3"))
    return net.concat([b1, b5, b3, _pool_branch(net, x, pooled)])


def _block_b(net, x):
    b3 = _unit(net, x, 384, 3, "branch3x3", stride=2)
    bd = _chain(net, x, (64, 1, "branch3x3dbl_1"), (96, 3, "branch3x3dbl_2"))
    bd = _unit(net, bd, 96, 3, "branch3x3dbl_3", stride=2)
    return net.concat([b3, bd, net.max_pool(x, kernel=3, stride=2)])


def _block_c(net, x, width):
    b1 = _chain(net, x, (192, 1, "branch1x1"))
    b7 = _chain(net, x, (width, 1, "branch7x7_1"), (width, (1, 7), "branch7x7_2"), (192, (7, 1), "branch7x7_3"))
    bd = _chain(
        net, x, (width, 1, "branch7x7dbl_1"), (width, (7, 1), "branch7x7dbl_2"), (width, (1, 7), "branch7x7dbl_3"),
        (width, (7, 1), "branch7x7dbl_4"), (192, (1, 7), "branch7x7dbl_5"),
    )  # fmt: skip
    return net.concat([b1, b7, bd, _pool_branch(net, x, 192)])


def _block_d(net, x):
    b3 = _unit(net, _chain(net, x, (192, 1, "branch3x3_1")), 320, 3, "branch3x3_2", stride=2)
    b7 = _chain(net, x, (192, 1, "branch7x7x3_1"), (192, (1, 7), "branch7x7x3_2"), (192, (7, 1), "branch7x7x3_3"))
    b7 = _unit(net, b7, 192, 3, "branch7x7x3_4", stride=2)
    return net.concat([b3, b7, net.max_pool(x, kernel=3, stride=2)])


def _block_e(net, x):
    def split(y, a, b):
        return net.concat([_chain(net, y, (384, (1, 3), a)), _chain(net, y, (384, (3, 1), b))])

    b1 = _chain(net, x, (320, 1, "branch1x1"))
    b3 = split(_chain(net, x, (384, 1, "branch3x3_1")), "branch3x3_2a", "branch3x3_2b")
    bd = _chain(net, x, (448, 1, "branch3x3dbl_1"), (384, 3, "branch3x3dbl_2"))
    bd = split(bd, "branch3x3dbl_3a", "branch3x3dbl_3b")
    return net.concat([b1, b3, bd, _pool_branch(net, x, 192)])
