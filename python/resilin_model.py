"""A model in Python for Resilin: wrap it, and name the file in a job.

    [model]
    command = "python3 model.py"

`pytorch`, `jax` and `autograd` wrap what is written for those libraries; `serve` takes any object
with the methods of `Model`. This file needs nothing but Python 3.8; copy it beside your model. The
protocol is docs/foreign-models.md.

What must hold: initial weights follow from the seed; the summed gradient of rows follows from
weights, rows and `batch.draw`, to the bit. Losses are *sums* over rows, never means.
"""

import array
import inspect
import io
import json
import math
import mmap
import os
import select
import signal
import sys
import threading
import traceback

PROTOCOL = 1


class Model:
    """What `serve` asks of a model. All values are flat views of 32-bit floats."""

    def start(self, seed, data):
        """Builds the model; returns its tensors as (name, shape) or (name, shape, "buffer")."""
        raise NotImplementedError

    def initial(self, out):
        """Fills each view of `out` with a tensor's initial values."""
        raise NotImplementedError

    def load(self, weights):
        """Takes new weights, one view a tensor, which are valid during the call only."""
        raise NotImplementedError

    def gradient(self, batch, out):
        """Fills `out` with gradients, summed over the rows; returns the summed loss."""
        raise NotImplementedError

    def score(self, batch):
        """Returns the summed loss and how many rows are right, or None without classes."""
        raise NotImplementedError

    def predict(self, batch):
        """Returns what the model gives for rows without targets: flat, row by row, each as many
        values; for classes, the largest is the predicted one. May be missing."""
        raise NotImplementedError


class Data:
    """The data set: `rows` to train on, `width` values each, and targets of a `kind`: "classes" or
    "values", of which there are `outputs`; "numbers" where the rows are this side's own."""

    def __init__(self, said):
        self.rows, self.width = said["rows"], said["width"]
        self.kind, self.outputs = said["kind"], said["outputs"]


class Batch:
    """Some rows: `x` and `y` are flat views, row by row, valid during the call; with `numbers`
    instead where the rows are this side's own. `draw` seeds everything random; None in a score.
    Rows that are only predicted have no `y`."""

    def __init__(self, data, view, ask):
        rows = ask["rows"]
        self.rows, self.width, self.kind = rows["count"], data.width, data.kind
        self.outputs = data.outputs if data.kind == "values" else 1
        self.step, self.partition = ask.get("step"), ask.get("partition")
        self.draw = ask.get("draw")
        letter = "f" if data.kind == "values" else "I"
        self.x = view(rows["features"], self.rows * self.width, "f")
        known = "targets" in rows
        self.y = view(rows["targets"], self.rows * self.outputs, letter) if known else None
        self.numbers = list(self.y) if data.kind == "numbers" else None


def fill(view, values):
    """Writes numbers into a view, as many as it has."""
    values = array.array("f", values)
    if len(values) != len(view):
        raise ValueError(f"{len(values)} values for a tensor of {len(view)}")
    view[:] = memoryview(values)


def serve(model, fingerprint=""):
    """Answers until standard input ends, which is when Resilin's process does. `fingerprint` is any
    text that must be the same for all processes, such as a version of the data. Does nothing but say
    so where Resilin has not started the process: a model's file can be imported for its classes."""
    if _answers is None:
        print("resilin_model: nothing asks here; `resilin train` starts a model", file=sys.stderr)
        return
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server = _Server(model, fingerprint)
    # Not sys.stdin, so that no code of the model reads from it by chance.
    for line in os.fdopen(os.dup(0), "rb"):
        ask = json.loads(line)
        try:
            answer = server.answer(ask)
        except Exception as error:
            traceback.print_exc()
            answer = {"answer": "failed", "why": f"{type(error).__name__}: {error}"}
        _answers.write(json.dumps(answer, allow_nan=False) + "\n")
        _answers.flush()
    sys.stdout.end()


def _take_output():
    """Where answers go; what the model prints belongs to the log, also where no Python prints it."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = _Printed()
    return answers


class _Printed(io.TextIOBase):
    """Standard output on standard error, line by line, with the mark that tells it from errors."""

    MARK = "\x1e"

    def __init__(self):
        self.line, self.lock = "", threading.RLock()

    def writable(self):
        return True

    def write(self, text):
        with self.lock:
            *lines, self.line = (self.line + text).split("\n")
            for line in lines:
                # One write a line: other threads and processes write there, too.
                os.write(2, f"{self.MARK}{line}\n".encode("utf-8", "replace"))
        return len(text)

    def end(self):
        if self.line:
            self.write("\n")


def _end_with_parent():
    """Ends the process with the other side, also in the middle of a computation, and with it what
    the model has started."""
    end = select.poll()
    # Only the end is waited for, which is always reported.
    end.register(0, 0)
    end.poll()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def weights(checkpoint):
    """The tensors in a checkpoint's directory: a dict from name to (shape, flat view of floats)."""
    with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    flat = array.array("f")
    for part in manifest["files"]:
        with open(os.path.join(checkpoint, part["name"]), "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            begin, end = json.loads(file.read(length))["weights"]["data_offsets"]
            file.seek(8 + length + begin)
            flat.frombytes(file.read(end - begin))
    flat, at, tensors = memoryview(flat), 0, {}
    for entry in manifest["layout"]["entries"]:
        count = math.prod(entry["shape"])
        tensors[entry["name"]] = entry["shape"], flat[at : at + count]
        at += count
    return tensors


class _Server:
    def __init__(self, model, fingerprint):
        self.model, self.fingerprint = model, fingerprint
        self.memory, self.version = None, None

    def answer(self, ask):
        what = ask["ask"]
        if what == "describe":
            return self.describe(ask)
        if self.memory is None or len(self.memory) != ask["bytes"]:
            self.memory = mmap.mmap(self.descriptor, ask["bytes"])
        if what == "initialise":
            self.model.initial(self.tensors(ask["weights"]))
            return {"answer": "initial", "values": self.values}
        if ask["version"] != self.version:
            self.model.load(self.tensors(ask["weights"]))
            self.version = ask["version"]
        batch = Batch(self.data, self.view, ask)
        if what == "gradient":
            loss = self.model.gradient(batch, self.tensors(ask["gradient"]))
            return {
                "answer": "gradient",
                "values": self.values,
                "samples": batch.rows,
                "weight": float(batch.rows),
                "loss_sum": _finite(loss),
            }
        if what == "score":
            loss, correct = self.model.score(batch)
            correct = None if correct is None else int(correct)
            loss = _finite(loss)
            return {"answer": "score", "rows": batch.rows, "correct": correct, "loss_sum": loss}
        if what == "predict":
            return self.predict(batch, ask)
        raise ValueError(f"nothing is known of {what!r}")

    def predict(self, batch, ask):
        values = array.array("f", self.model.predict(batch))
        width, rest = divmod(len(values), batch.rows)
        if rest:
            raise ValueError(f"{len(values)} predicted values for {batch.rows} rows")
        if len(values) > ask["room"]:
            # The other side asks again, with room for so many.
            return {"answer": "prediction", "width": width, "values": 0}
        fill(self.view(ask["outputs"], len(values), "f"), values)
        return {"answer": "prediction", "width": width, "values": len(values)}

    def describe(self, ask):
        if ask["protocol"] == PROTOCOL:
            self.descriptor, self.data = ask["memory"], Data(ask["data"])
            tensors = list(self.model.start(ask["seed"], self.data))
        else:
            # The other side names the remedy.
            tensors = []
        self.shapes = [[int(size) for size in tensor[1]] for tensor in tensors]
        self.values = sum(map(math.prod, self.shapes))
        role = lambda tensor: tensor[2] if len(tensor) > 2 else "trained"
        described = [
            {"name": tensor[0], "shape": shape, "role": role(tensor)}
            for tensor, shape in zip(tensors, self.shapes)
        ]
        return {
            "answer": "description",
            "protocol": PROTOCOL,
            "tensors": described,
            "fingerprint": self.fingerprint,
            "predicts": _predicts(self.model),
        }

    def view(self, at, count, letter):
        return memoryview(self.memory)[at : at + 4 * count].cast(letter)

    def tensors(self, at):
        views = []
        for shape in self.shapes:
            views.append(self.view(at, math.prod(shape), "f"))
            at += 4 * math.prod(shape)
        return views


def _predicts(model):
    """Whether a model has a `predict` of its own."""
    predict = getattr(model, "predict", None)
    return callable(predict) and getattr(predict, "__func__", None) is not Model.predict


def _finite(loss):
    loss = float(loss)
    return loss if math.isfinite(loss) else None


def _sum_not_mean(once, twice):
    """Tells a sum from a mean by the loss of the same rows taken twice."""
    once, twice = float(once), float(twice)
    if once != 0 and abs(twice - once) <= 1e-3 * abs(once):
        raise ValueError(
            "the loss is a mean over the rows, and a sum is needed: "
            'use reduction="sum", or return one loss for each row'
        )


def _arguments(function):
    return len(inspect.signature(function).parameters)


# PyTorch


def pytorch(
    module, loss, train=None, test=None, correct=None, moving=(), device="cpu", fingerprint="", predict=None
):
    """Serves a PyTorch module.

    `module`: a function or class that makes the module; called after torch.manual_seed.
    `loss(output, targets)`: the sum over the rows, or one loss for each.
    `train`, `test`: Datasets, for `[data] name = "numbers"`; without, rows come from the job.
    `correct(output, targets)`: how many rows are right; without, by the largest output.
    `moving`: names of buffers that training changes, beside those of batch normalisation.
    `predict(module, x)`: a tensor with the values of each row of `x`; without, the module's output.
    """
    serve(_PyTorch(module, loss, (train, test), correct, moving, device, predict), fingerprint)


def restore(module, checkpoint):
    """Puts the tensors of a checkpoint into a PyTorch module with the same names."""
    import torch

    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    with torch.no_grad():
        for name, (shape, values) in weights(checkpoint).items():
            named[name].copy_(torch.frombuffer(values, dtype=torch.float32).view(shape))


class _PyTorch(Model):
    def __init__(self, module, loss, sets, correct, moving, device, predict):
        import torch

        if isinstance(module, torch.nn.Module):
            raise TypeError("give a function that makes the module: weights follow from the seed")
        if getattr(loss, "reduction", None) == "mean":
            raise ValueError('the loss is a mean over the rows: give it reduction="sum"')
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        self.torch, self.make, self.loss, self.sets = torch, module, loss, sets
        self.count, self.names, self.device = correct, set(moving), device
        self.output = predict or (lambda module, x: module(x))
        self.checked = False

    def start(self, seed, data):
        torch = self.torch
        torch.manual_seed(seed)
        self.data, self.module = data, self.make().to(self.device)
        named = self.module.named_parameters()
        self.parameters = {name: p for name, p in named if p.requires_grad}
        norm = torch.nn.modules.batchnorm._NormBase
        for path, part in self.module.named_modules():
            if isinstance(part, norm):
                own = part.named_buffers(recurse=False)
                self.names.update(f"{path}.{name}" if path else name for name, _ in own)
        buffers = dict(self.module.named_buffers())
        self.moving = {name: b for name, b in buffers.items() if name in self.names}
        still = (item for item in buffers.items() if item[0] not in self.names)
        self.still = {name: (b, b.clone()) for name, b in still}
        self.kept = {}
        tensors = [(name, p.shape) for name, p in self.parameters.items()]
        return tensors + [(name, b.shape, "buffer") for name, b in self.moving.items()]

    def all(self):
        return [*self.parameters.values(), *self.moving.values()]

    def flat(self, view):
        return self.torch.frombuffer(view, dtype=self.torch.float32)

    def initial(self, out):
        for view, tensor in zip(out, self.all()):
            self.flat(view).copy_(tensor.detach().flatten())

    def load(self, weights):
        with self.torch.no_grad():
            for view, tensor in zip(weights, self.all()):
                tensor.copy_(self.flat(view).view(tensor.shape))
        self.kept = {name: b.clone() for name, b in self.moving.items()}

    def gradient(self, batch, out):
        torch = self.torch
        x, y = self.read(batch)
        if not self.checked:
            self.check(x, y)
        self.module.train()
        torch.manual_seed(batch.draw)
        with torch.no_grad():
            for name, buffer in self.moving.items():
                buffer.copy_(self.kept[name])
        self.module.zero_grad(set_to_none=True)
        loss = self.loss(self.module(x), y).sum()
        loss.backward()
        for name, (buffer, before) in self.still.items():
            if not torch.equal(buffer, before):
                raise ValueError(f"training changes the buffer {name}: name it in moving=")
        zero = torch.zeros(())
        sums = [zero if p.grad is None else p.grad for p in self.parameters.values()]
        # The mean over all rows of the step takes the place of the buffer.
        sums += [buffer.to(torch.float32) * batch.rows for buffer in self.moving.values()]
        for view, values in zip(out, sums):
            self.flat(view).copy_(values.detach().flatten())
        return loss.item()

    def score(self, batch):
        x, y = self.read(batch)
        self.module.eval()
        with self.torch.no_grad():
            output = self.module(x)
            loss = self.loss(output, y).sum().item()
            return loss, self.right(output, y)

    def predict(self, batch):
        x, _ = self.read(batch)
        self.module.eval()
        with self.torch.no_grad():
            output = self.output(self.module, x)
        if not isinstance(output, self.torch.Tensor):
            name = type(output).__name__
            raise TypeError(f"the module gives a {name}: give pytorch a predict= that makes a tensor")
        return output.to(self.torch.float32).flatten().tolist()

    def right(self, output, y):
        if self.count is not None:
            return int(self.count(output, y))
        tensors = isinstance(output, self.torch.Tensor) and isinstance(y, self.torch.Tensor)
        if not tensors or y.is_floating_point() or output.dim() != y.dim() + 1:
            return None
        right = output.argmax(1) == y
        return int(right.sum()) if right.dim() == 1 else None

    def check(self, x, y):
        self.checked = True
        if not all(isinstance(part, self.torch.Tensor) for part in (x, y)):
            return
        self.module.eval()
        with self.torch.no_grad():
            loss = lambda x, y: self.loss(self.module(x), y).sum()
            _sum_not_mean(loss(x, y), loss(self.torch.cat([x, x]), self.torch.cat([y, y])))

    def read(self, batch):
        torch = self.torch
        if batch.numbers is None:
            # Copies: alignment, on which bits could depend, is then PyTorch's own.
            x = self.flat(batch.x).view(batch.rows, batch.width).clone()
            if batch.y is None:
                y = None
            elif batch.kind == "values":
                y = self.flat(batch.y).view(batch.rows, batch.outputs).clone()
            else:
                y = torch.frombuffer(batch.y, dtype=torch.int32).to(torch.int64)
        else:
            rows = [_row(self.sets, self.data, number) for number in batch.numbers]
            x, y = torch.utils.data.default_collate(rows)
        move = lambda part: part.to(self.device) if isinstance(part, torch.Tensor) else part
        return move(x), move(y)


def _row(sets, data, number):
    """The row of a Dataset: numbers from `rows` on are test rows."""
    train, test = sets
    if number < data.rows:
        return train[number]
    return test[number - data.rows]


# Functions over arrays


class _Functions(Model):
    """`initial(random)` gives a dict of arrays; `loss(parameters, x, y)` the sum, or one for each row,
    with `random` as a fourth argument if it takes one; `predict(parameters, x)` the values of each
    row, for accuracy and for predictions."""

    dtype = "float32"

    def __init__(self, initial, loss, predict, train, test):
        import numpy

        self.np, self.make, self.output, self.sets = numpy, initial, predict, (train, test)
        if predict is None:
            self.predict = None
        self.draws, self.checked = _arguments(loss) > 3, False
        self.loss = loss if self.draws else lambda parameters, x, y, random: loss(parameters, x, y)
        self.differentiate()

    def total(self, parameters, x, y, random):
        return self.loss(parameters, x, y, random).sum()

    def start(self, seed, data):
        self.data, made = data, self.make(self.random(seed))
        self.first = {name: self.np.asarray(values) for name, values in made.items()}
        return [(name, values.shape) for name, values in self.first.items()]

    def initial(self, out):
        for view, values in zip(out, self.first.values()):
            self.flat(view)[:] = values.ravel()

    def load(self, weights):
        named = zip(weights, self.first.items())
        self.parameters = {
            name: self.array(self.flat(view).reshape(first.shape)) for view, (name, first) in named
        }

    def gradient(self, batch, out):
        x, y = self.read(batch)
        random = self.random(batch.draw)
        if not self.checked:
            self.checked = True
            twice = self.np.concatenate([x, x]), self.np.concatenate([y, y])
            total = lambda x, y: self.total(self.parameters, x, y, random)
            # A random loss says nothing.
            if not self.draws:
                _sum_not_mean(total(x, y), total(*twice))
        loss, gradients = self.value_and_grad(self.parameters, x, y, random)
        for view, name in zip(out, self.first):
            self.flat(view)[:] = self.np.asarray(gradients[name]).ravel()
        return loss

    def score(self, batch):
        x, y = self.read(batch)
        loss = self.total(self.parameters, x, y, None)
        if self.output is None or batch.kind == "values":
            return loss, None
        predicted = self.np.asarray(self.output(self.parameters, x)).argmax(1)
        return loss, (predicted == y).sum()

    def predict(self, batch):
        x, _ = self.read(batch)
        return self.np.asarray(self.output(self.parameters, x), self.np.float32).ravel()

    def flat(self, view):
        return self.np.frombuffer(view, self.np.float32)

    def array(self, values):
        return values.astype(self.dtype)

    def read(self, batch):
        np = self.np
        if batch.numbers is not None:
            numbers = np.array(batch.numbers)
            train, test = self.sets
            # A microbatch is of one of the two.
            if numbers[0] < self.data.rows:
                return train[0][numbers], train[1][numbers]
            return test[0][numbers - self.data.rows], test[1][numbers - self.data.rows]
        x = self.flat(batch.x).reshape(batch.rows, batch.width).astype(self.dtype)
        if batch.y is None:
            return x, None
        if batch.kind == "values":
            return x, self.flat(batch.y).reshape(batch.rows, batch.outputs).astype(self.dtype)
        return x, np.frombuffer(batch.y, np.uint32).astype(np.int32)


def autograd(initial, loss, predict=None, train=None, test=None, fingerprint=""):
    """Serves functions over `autograd.numpy`, in 64-bit floats. `initial` gets a numpy Generator and
    returns a dict of arrays; `train` and `test`: pairs of arrays for `[data] name = "numbers"`."""
    serve(_Autograd(initial, loss, predict, train, test), fingerprint)


class _Autograd(_Functions):
    dtype = "float64"

    def differentiate(self):
        import autograd as library

        self.value_and_grad = library.value_and_grad(self.total)

    def random(self, seed):
        return self.np.random.default_rng(seed)


def jax(initial, loss, predict=None, train=None, test=None, fingerprint=""):
    """Serves functions over `jax.numpy`; `initial` gets a key and returns a dict of arrays."""
    serve(_Jax(initial, loss, predict, train, test), fingerprint)


class _Jax(_Functions):
    def differentiate(self):
        import jax as library

        self.library = library
        self.value_and_grad = library.jit(library.value_and_grad(self.total))
        self.total = library.jit(self.total)

    def random(self, seed):
        # Keys are made of 32 bits at a time.
        key = self.library.random.PRNGKey(seed & 0x7FFFFFFF)
        return self.library.random.fold_in(key, (seed >> 31) & 0x7FFFFFFF)


# A model may print while it is imported, long before it is served.
_answers = _take_output() if os.environ.pop("RESILIN_MODEL", None) else None
