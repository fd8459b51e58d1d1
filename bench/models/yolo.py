"""YOLOv8n, as ultralytics exports it: C2f blocks, pyramid pooling, three detection heads and the decoding of boxes."""

import numpy as np

from convnets import ConvNet

_GAIN = 2.8  # keeps the variance through SiLU
_BINS, _CLASSES = 16, 80


class Yolo(ConvNet):
    strides = (8, 16, 32)

    def __init__(self, name, opset):
        super().__init__(name, opset, size=640, bn_epsilon=1e-3)

    def build(self):
        p3, p4, p5 = self.backbone()
        up4 = self.at(12, self.c2f, self.concat([self.at(10, self.upsample, p5), p4]), 128)
        up3 = self.at(15, self.c2f, self.concat([self.at(13, self.upsample, up4), p3]), 64)
        down4 = self.at(18, self.c2f, self.concat([self.at(16, self.unit, up3, 64, 3, 2), up4]), 128)
        down5 = self.at(21, self.c2f, self.concat([self.at(19, self.unit, down4, 128, 3, 2), p5]), 256)
        return self.at(22, self.detect, (up3, down4, down5))

    def at(self, index, layer, *arguments):
        """A layer as entry `index` of the module list."""
        with self.scope(f"model.{index}"):
            return layer(*arguments)

    def backbone(self):
        x, taps = self.at(0, self.unit, "input", 16, 3, 2), []
        for stage, (width, repeats) in enumerate(((32, 1), (64, 2), (128, 2), (256, 1))):
            x = self.at(2 * stage + 1, self.unit, x, width, 3, 2)
            x = self.at(2 * stage + 2, self.c2f, x, width, repeats, True)
            taps.append(x)
        return taps[1], taps[2], self.at(9, self.pyramid_pooling, x)

    def unit(self, x, out, kernel, stride=1, leaf=None):
        with self.scope(*([leaf] if leaf else [])):
            y = self.conv(x, out, kernel, "conv", stride=stride, pad=kernel // 2, bn="bn", gain=_GAIN)
            return self.silu(y, "act")

    def c2f(self, x, out, repeats=1, shortcut=False):
        half = out // 2
        parts = self.node("Split", [self.unit(x, out, 1, leaf="cv1"), self.ints(half, half)], 2, axis=1)
        self.channels |= dict.fromkeys(parts, half)
        for index in range(repeats):
            with self.scope(f"m.{index}"):
                y = self.unit(self.unit(parts[-1], half, 3, leaf="cv1"), half, 3, leaf="cv2")
                parts.append(self.add(parts[-1], y) if shortcut else y)
        return self.unit(self.concat(parts), out, 1, leaf="cv2")

    def pyramid_pooling(self, x):
        maps = [self.unit(x, 128, 1, leaf="cv1")]
        for _ in range(3):
            maps.append(self.max_pool(maps[-1], "m", kernel=5, stride=1, pad=2))
        return self.unit(self.concat(maps), 256, 1, leaf="cv2")

    def upsample(self, x):
        scales = self.constant([1.0, 1.0, 2.0, 2.0])
        y = self.node("Resize", [x, "", scales], coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")
        return self._like(x, y)

    def detect(self, maps):
        """[1, 4 + classes, anchors]: centre, width and height in pixels, then a score per class."""
        flat = []
        for level, x in enumerate(maps):
            boxes = self.branch(x, f"cv2.{level}", 64, 4 * _BINS)
            scores = self.branch(x, f"cv3.{level}", 80, _CLASSES)
            flat.append(self.node("Reshape", [self.concat([boxes, scores]), self.ints(1, 4 * _BINS + _CLASSES, -1)]))
        joined = self.node("Concat", flat, axis=2)
        boxes, scores = self.node("Split", [joined, self.ints(4 * _BINS, _CLASSES)], 2, axis=1)
        boxes = self.decoded(self.expected_bins(boxes))
        self.output(self.node("Concat", [boxes, self.node("Sigmoid", [scores])], axis=1), "output0", [1, 4 + _CLASSES, self.anchors().shape[1]])
        return self

    def branch(self, x, leaf, width, out):
        with self.scope(leaf):
            y = self.unit(self.unit(x, width, 3, leaf="0"), width, 3, leaf="1")
            return self.conv(y, out, 1, "2", bias=True)

    def expected_bins(self, boxes):
        """The mean of each side's distribution over its bins, by a convolution with 0, 1, 2, ..."""
        count = self.anchors().shape[1]
        with self.scope("dfl"):
            x = self.node("Transpose", [self.node("Reshape", [boxes, self.ints(1, 4, _BINS, count)])], perm=[0, 2, 1, 3])
            bins = self.weight("conv.weight", np.arange(_BINS, dtype=np.float32).reshape(1, _BINS, 1, 1))
            x = self.node(
                "Conv", [self.node("Softmax", [x], axis=1), bins], dilations=[1, 1], group=1, kernel_shape=[1, 1],
                pads=[0, 0, 0, 0], strides=[1, 1],
            )  # fmt: skip
            return self.node("Reshape", [x, self.ints(1, 4, count)])

    def anchors(self):
        """Centres of all cells in cells, and below them the strides: [3, anchors]."""
        rows = []
        for stride in self.strides:
            y, x = np.mgrid[0 : 640 // stride, 0 : 640 // stride].reshape(2, -1) + np.float32(0.5)
            rows.append(np.stack([x, y, np.full(x.shape, stride)]))
        return np.concatenate(rows, axis=1).astype(np.float32)

    def halves(self, x):
        """chunk(2, dim=1), whose sizes tracing computes."""
        half = self.node("Div", [self.node("Add", [self.dim(x, 1), self.constant([1], np.int64)]), self.constant([2], np.int64)])
        ends = [self.node("Mul", [half, self.constant([count], np.int64)]) for count in (1, 2)]
        axis = self.ints(1)
        return self.node("Slice", [x, self.ints(0), ends[0], axis]), self.node("Slice", [x, ends[0], ends[1], axis])

    def decoded(self, distances):
        anchors = self.anchors()
        centres, strides = self.constant(anchors[None, :2]), self.constant(anchors[None, 2:])
        before, after = self.halves(distances)
        low, high = self.node("Sub", [centres, before]), self.node("Add", [after, centres])
        middle = self.node("Div", [self.node("Add", [low, high]), self.constant(2.0)])
        return self.node("Mul", [self.node("Concat", [middle, self.node("Sub", [high, low])], axis=1), strides])


def yolov8n(name, opset=17):
    return Yolo(name, opset).build()
