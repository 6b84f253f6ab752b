"""A network over `jax.numpy`, on the rows of the job."""

import jax.numpy as np
import resilin_model
from jax import nn, random


def initial(key):
    first, second = random.split(key)
    weight = nn.initializers.lecun_normal()
    return {"in": weight(first, (64, 32)), "in.bias": np.zeros(32), "out": weight(second, (32, 10))}


def predict(p, x):
    return nn.relu(x @ p["in"] + p["in.bias"]) @ p["out"]


def loss(p, x, y):
    return -nn.log_softmax(predict(p, x))[np.arange(len(y)), y]


resilin_model.jax(initial, loss, predict)
