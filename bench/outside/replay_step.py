"""Redoes one step of a run with PyTorch in f64, from outside: the checkpoint before the step, the
rows that the ledger says the step applied, the rows' CSV file, and nothing of resilin's code.

    resilin audit RUN --state DIR --step N --json > step.json
    python replay_step.py RUN_DIRECTORY step.json rows.csv

The job: a csv source without header, test_fraction = 0 and the class in the last column; an mlp
with relu and without dropout; sgd or momentum with a constant learning rate; a checkpoint at N and
at N + 1, as [checkpoint] every_steps = N with [run] steps = N + 1 makes them. Prints the largest
difference to the checkpoint after the step, weights and momentum; exit code 1 if it is above 1e-5.
"""

import csv
import json
import pathlib
import struct
import sys

import torch

BOUND = 1e-5


def checkpoint(run, step):
    """The manifest and the flat tensors of the newest checkpoint of a step."""
    found = sorted(run.glob(f"{step:012d}-*"))
    if not found:
        sys.exit(f"{run} has no checkpoint of step {step}: set [checkpoint] every_steps = N, [run] steps = N + 1")
    manifest = json.loads((found[-1] / "manifest.json").read_text())
    flat = {}
    for record in manifest["files"]:
        data = (found[-1] / record["name"]).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        for name in record["tensors"]:
            begin, end = header[name]["data_offsets"]
            part = bytearray(data[8 + length + begin : 8 + length + end])
            flat.setdefault(name, []).append(torch.frombuffer(part, dtype=torch.float32))
    return manifest, {name: torch.cat(parts).double() for name, parts in flat.items()}


def job_of(manifest):
    """The effective job as section -> key -> value."""
    job = {}
    for key in manifest["job"]["keys"]:
        text = key["value"]
        job.setdefault(key["section"], {})[key["key"]] = None if text is None else json.loads(text)
    return job


def check(job):
    """Refuses a job that this script would redo wrongly."""
    wanted = [
        ("data", "test_fraction", 0.0),
        ("model", "name", "mlp"),
        ("model", "activation", "relu"),
        ("model", "dropout", 0.0),
        ("optimizer", "l2", 0.0),
        ("schedule", "name", "constant"),
        ("schedule", "warmup_steps", 0),
        ("run", "clip_norm", None),
        ("run", "clip_value", None),
    ]
    for section, key, value in wanted:
        found = job.get(section, {}).get(key, value)
        if found != value:
            sys.exit(f"[{section}] {key} is {found!r}; this script redoes {value!r} only")


def gradient(manifest, weights, inputs, targets):
    """The mean gradient of the step's rows, flat in layout order."""
    parameters, offset = [], 0
    for entry in manifest["layout"]["entries"]:
        shape = torch.Size(entry["shape"])
        part = weights[offset : offset + shape.numel()].reshape(shape).clone()
        parameters.append(part.requires_grad_())
        offset += shape.numel()
    layers = list(zip(parameters[0::2], parameters[1::2]))
    hidden = inputs
    for number, (matrix, bias) in enumerate(layers):
        hidden = hidden @ matrix + bias
        if number + 1 < len(layers):
            hidden = torch.relu(hidden)
    loss = torch.nn.functional.cross_entropy(hidden, targets)
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in parameters]), loss.item()


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    run, step = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())
    manifest, before = checkpoint(run, step["step"])
    _, after = checkpoint(run, step["step"] + 1)
    job = job_of(manifest)
    check(job)

    with open(sys.argv[3], newline="") as file:
        table = [[float(cell) for cell in line] for line in csv.reader(file)]
    rows = [row for part in step["partitions"] for row in part["rows"]]
    picked = torch.tensor([table[row] for row in rows], dtype=torch.float64)
    inputs = picked[:, :-1] / job["data"].get("scale", 1.0)
    made, loss = gradient(manifest, before["weights"], inputs, picked[:, -1].long())

    rate = job["optimizer"]["learning_rate"]
    redone = {}
    if job["optimizer"]["name"] == "momentum":
        redone["momentum"] = job["optimizer"]["momentum"] * before["momentum"] + made
        made = redone["momentum"]
    elif job["optimizer"]["name"] != "sgd":
        sys.exit("this script redoes sgd and momentum only")
    redone["weights"] = before["weights"] - rate * made

    worst = max((redone[name] - after[name]).abs().max().item() for name in redone)
    moved = (after["weights"] - before["weights"]).abs().max().item()
    print(
        f"step {step['step']}: {len(rows)} rows, loss {loss:.6f} (ledger {step['loss']:.6f}), "
        f"largest change {moved:.3e}, largest difference {worst:.3e}"
    )
    sys.exit(0 if worst <= BOUND and moved > 100 * BOUND else 1)


if __name__ == "__main__":
    main()
