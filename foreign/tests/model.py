"""Softmax regression in nothing but Python, for tests: `model.py [HOW [STEP]]`.

HOW says what goes wrong, from STEP on.
"""

import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path

# The repository stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

HOW = sys.argv[1] if len(sys.argv) > 1 else "well"
FROM = int(sys.argv[-1]) if len(sys.argv) > 2 else 0
# Keeps its place in front of a pipe to the other side, which the import takes away.
ANSWERS = os.fdopen(os.dup(1), "w")

import resilin_model

if HOW == "chatty":
    # As models do that tell their device or version: this is no answer.
    print("device: cpu")


class Softmax(resilin_model.Model):
    def start(self, seed, data):
        if HOW == "killed":
            # Twice, as by a host without memory; a file counts.
            with open(sys.argv[2], "ab+") as starts:
                starts.write(b".")
                count = starts.tell()
            if count <= int(sys.argv[3]):
                os.kill(os.getpid(), 9)
        if HOW == "unstarted":
            raise SystemExit("no such library")
        self.seed, self.width, self.classes = seed, data.width, data.outputs
        if HOW == "shaped":
            # Its rows are its own.
            self.width = 2
        if HOW == "twins":
            return [("weight", (2,)), ("weight", (2,))]
        return [("weight", (self.width, self.classes)), ("bias", (self.classes,))]

    def initial(self, out):
        draws = random.Random(self.seed)
        resilin_model.fill(out[0], [draws.gauss(0, 0.1) for _ in out[0]])
        resilin_model.fill(out[1], [math.nan if HOW == "born-nan" else 0.0] * len(out[1]))

    def load(self, weights):
        self.weight, self.bias = weights[0].tolist(), weights[1].tolist()

    def gradient(self, batch, out):
        if batch.step >= FROM:
            go_wrong(batch)
        # A few inputs are left out, as dropout does.
        draws = random.Random(batch.draw)
        kept = [draws.random() < 0.9 for _ in range(self.width)]
        weight, bias, loss_sum = [0.0] * len(self.weight), [0.0] * self.classes, 0.0
        for x, y in self.rows(batch):
            x = [value if keep else 0.0 for value, keep in zip(x, kept)]
            shares = softmax(self.outputs(x))
            loss_sum -= math.log(shares[y])
            shares[y] -= 1.0
            for at, share in enumerate(shares):
                bias[at] += share
            for row, value in enumerate(x):
                if value != 0.0:
                    for at, share in enumerate(shares):
                        weight[row * self.classes + at] += value * share
        if HOW == "flaky":
            bias[0] += random.SystemRandom().random()
        if HOW == "nan" and batch.step >= FROM:
            bias[0] = loss_sum = math.nan
        resilin_model.fill(out[0], weight)
        resilin_model.fill(out[1], bias[1:] if HOW == "short" else bias)
        return loss_sum

    def score(self, batch):
        loss_sum, correct = 0.0, 0
        for x, y in self.rows(batch):
            shares = softmax(self.outputs(x))
            loss_sum -= math.log(shares[y])
            correct += shares.index(max(shares)) == y
        return loss_sum, batch.rows + 1 if HOW == "overcount" else correct

    def predict(self, batch):
        outputs = []
        for at in range(batch.rows):
            outputs += self.outputs(self.row(batch, at))
            # More values than there are classes, as a model may give beside them.
            outputs += [0.5] * self.classes if HOW == "wide" else []
        return outputs[1:] if HOW == "ragged" else outputs

    def rows(self, batch):
        for at in range(batch.rows):
            yield self.row(batch, at), batch.y[at]

    def row(self, batch, at):
        return batch.x[at * self.width : (at + 1) * self.width].tolist()

    def outputs(self, x):
        outputs = list(self.bias)
        for row, value in enumerate(x):
            if value != 0.0:
                for at in range(self.classes):
                    outputs[at] += value * self.weight[row * self.classes + at]
        return outputs


def softmax(outputs):
    largest = max(outputs)
    powers = [math.exp(output - largest) for output in outputs]
    return [power / sum(powers) for power in powers]


def go_wrong(batch):
    if HOW == "crash":
        print("about to fall", file=sys.stderr, flush=True)
        os._exit(7)
    if HOW == "hang":
        while True:
            pass
    if HOW == "garbage":
        print("loss: 0.5", file=ANSWERS, flush=True)
    if HOW == "wrong":
        gradient = '{"answer":"gradient","values":%d,"samples":%d,"weight":1,"loss_sum":0}'
        print(gradient % (3, batch.rows), file=ANSWERS, flush=True)
    if HOW == "miscount":
        gradient = '{"answer":"gradient","values":%d,"samples":%d,"weight":1,"loss_sum":0}'
        print(gradient % (650, batch.rows + 1), file=ANSWERS, flush=True)
    if HOW == "other":
        print('{"answer":"score","rows":1,"correct":1,"loss_sum":0}', file=ANSWERS, flush=True)
    if HOW == "leaves":
        left = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
        Path(sys.argv[2]).write_text(str(left.pid))
        os._exit(7)
    if HOW == "closes":
        os.close(ANSWERS.fileno())
        os.close(resilin_model._answers.fileno())
        time.sleep(1000)
    if HOW == "raise":
        raise KeyError("x")


if HOW == "terse":
    print('{"answer":"description","protocol":1}', file=ANSWERS, flush=True)
if HOW == "old":
    resilin_model.PROTOCOL = 0
if HOW == "mute":
    # As every command was before predictions were asked for, or one that has none.
    del Softmax.predict
if HOW == "oddly":
    Softmax.predict = lambda self, batch: []
resilin_model.serve(Softmax())
