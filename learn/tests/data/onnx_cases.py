"""Makes onnx.json: the node cases of Debian's libonnx-testdata for operations and update rules that
this project has, and for every other case the reason why it is left out.

    apt download libonnx-testdata && dpkg-deb -x libonnx-testdata_*.deb x
    pip install onnx
    python3 onnx_cases.py x/usr/share/libonnx-testdata/data/node > onnx.json
"""

import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

HAVE = set(
    """Abs Neg Exp Log Sqrt Reciprocal Erf Clip Tanh Relu Sigmoid LeakyRelu Elu Softplus Add Sub Mul
    Div Max Min Sum Mean MatMul Gemm Conv MaxPool AveragePool GlobalAveragePool GlobalMaxPool
    BatchNormalization LayerNormalization Softmax LogSoftmax Concat Transpose Reshape Slice Gather
    Squeeze Unsqueeze Flatten ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2
    ReduceSumSquare ReduceLogSum ReduceLogSumExp SoftmaxCrossEntropyLoss Momentum Adagrad""".split()
)
MOST_VALUES = 4000
MOST_DIMENSIONS = 6


def reason_against(model, inputs, outputs):
    """Why a case is left out; None if it is compared."""
    nodes = model.graph.node
    if len(nodes) != 1:
        return "several nodes"
    node = nodes[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.domain.endswith("training") and node.op_type == "Adam":
        return "Adam with the bias correction of the step before"
    if node.op_type not in HAVE:
        return f"no operation like {node.op_type}"
    if any(not isinstance(t, np.ndarray) for t in inputs + outputs):
        return "not a tensor"
    arrays = [outputs[0]] + inputs[: 1 if node.op_type in ("Gather", "Reshape", "Slice") else None]
    floats = (np.float32, np.float64, np.int64)
    if any(t.dtype not in floats for t in arrays) or outputs[0].dtype == np.int64:
        return "not f32 or f64"
    if sum(t.size for t in inputs + outputs) > MOST_VALUES:
        return f"more than {MOST_VALUES} values"
    if any(t.ndim > MOST_DIMENSIONS for t in inputs + outputs):
        return f"more than {MOST_DIMENSIONS} dimensions"
    if any(t.size == 0 for t in arrays):
        return "an empty tensor"
    if node.op_type in ("Conv", "MaxPool", "AveragePool"):
        if inputs[0].ndim != 4:
            return "windows of other than two dimensions"
        if any(d != 1 for d in attributes.get("dilations", [1])) or attributes.get("ceil_mode"):
            return "dilation or ceil_mode"
        if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            return "auto_pad"
        border = any(attributes.get("pads", [0]))
        if node.op_type == "AveragePool" and border and not attributes.get("count_include_pad"):
            return "a mean without the border"
        if len(node.output) > 1 and node.op_type == "MaxPool":
            return "places of the largest values"
    if node.op_type == "Slice":
        starts, ends = inputs[1], inputs[2]
        steps = inputs[4] if len(inputs) > 4 else np.ones(1)
        if (steps != 1).any():
            return "steps other than 1"
    if node.op_type == "Gather" and (inputs[1] < 0).any():
        return "negative indices"
    if node.op_type == "Gather" and inputs[1].ndim != 1:
        return "indices of several dimensions"
    if node.op_type == "Clip" and len(inputs) < 3:
        return "one bound alone"
    if node.op_type == "SoftmaxCrossEntropyLoss":
        if attributes.get("reduction", b"mean") == b"none" or len(node.output) > 1:
            return "losses of single rows"
        if "ignore_index" in attributes:
            return "rows that are passed over"
    if node.op_type == "ReduceSum" and attributes.get("noop_with_empty_axes"):
        return "no axes, and nothing to do"
    if node.op_type in ("Max", "Min") and outputs[0].dtype == np.float64:
        return None
    return None


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def tensor(array):
    values = array.ravel().tolist()
    if array.dtype == np.float32:
        values = [float(str(v)) for v in array.ravel()]
    return {"shape": list(array.shape), "values": values}


def read(path):
    loaded = onnx.TensorProto()
    try:
        loaded.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(loaded)
    except Exception:
        return None


def main(root):
    cases, skipped = [], {}
    for folder in sorted(pathlib.Path(root).iterdir()):
        model = onnx.ModelProto()
        model.ParseFromString((folder / "model.onnx").read_bytes())
        for data in sorted(folder.glob("test_data_set_*")):
            count = lambda kind: len(list(data.glob(f"{kind}_*.pb")))
            get = lambda kind: [read(data / f"{kind}_{i}.pb") for i in range(count(kind))]
            inputs, outputs = get("input"), get("output")
            name = folder.name.removeprefix("test_")
            reason = reason_against(model, inputs, outputs)
            if reason:
                skipped[name] = reason
                continue
            node = model.graph.node[0]
            attributes = {
                a.name: plain(onnx.helper.get_attribute_value(a)) for a in node.attribute
            }
            cases.append(
                {
                    "name": name,
                    "operation": node.op_type,
                    "attributes": attributes,
                    "inputs": [tensor(t) for t in inputs],
                    "outputs": [tensor(t) for t in outputs],
                }
            )
    text = {"source": "Debian libonnx-testdata 1.12.0-2, node cases", "cases": cases}
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    print('{"source":' + json.dumps(text["source"]) + ',\n"skipped":')
    print(json.dumps(skipped, indent=0) + ',\n"cases":[\n' + lines + "\n]}")


main(sys.argv[1])
