"""From a network in a file and samples in numpy to an int8 ONNX model, with its accuracy."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import detent

# A classifier of two classes, in the place of your own model.onnx.
random = np.random.default_rng(0)
weights = {"w": random.standard_normal((16, 2)).astype(np.float32), "b": np.zeros(2, np.float32)}
graph = helper.make_graph(
    [helper.make_node("Gemm", ["x", "w", "b"], ["scores"])],
    "classifier",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 2])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
samples = random.standard_normal((256, 16)).astype(np.float32)
labels = (samples @ weights["w"]).argmax(axis=1)

net = detent.load("model.onnx")
result = net.quantize(samples[:128], test=[(samples[128:], labels[128:])])
print(result)
result.network.export("model-int8.onnx", overwrite=True)
assert result.accuracy_after is not None and result.accuracy_after.accuracy > 0.9
