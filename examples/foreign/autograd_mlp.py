"""A network over `autograd.numpy`, on the rows of the job."""

import autograd.numpy as np
import resilin_model


def initial(random):
    weight = lambda rows, columns: random.normal(0, rows**-0.5, (rows, columns))
    return {"in": weight(64, 32), "in.bias": np.zeros(32), "out": weight(32, 10), "bias": np.zeros(10)}


def predict(p, x):
    return np.tanh(x @ p["in"] + p["in.bias"]) @ p["out"] + p["bias"]


def loss(p, x, y):
    outputs = predict(p, x)
    largest = np.max(outputs, axis=1, keepdims=True)
    normal = np.log(np.sum(np.exp(outputs - largest), axis=1)) + largest[:, 0]
    return normal - outputs[np.arange(len(y)), y]


resilin_model.autograd(initial, loss, predict)
