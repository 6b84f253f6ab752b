"""Makes hips.json: trajectories of HIPS/autograd's own optimizers, in float64.

    pip install autograd numpy
    python3 hips.py > hips.json
"""

import json

import autograd
import autograd.numpy as np
from autograd.misc.optimizers import adam, rmsprop, sgd

STEPS = 25


def loss(w, step):
    """Not convex, other at every step, gradients of unlike sizes."""
    target = np.sin(0.7 * (step + 1) * np.arange(1, 7))
    hidden = np.tanh(w[:6] * target + w[6:])
    return np.sum((hidden - target) ** 2) * 3.0 + 0.01 * np.sum(np.exp(w))


gradient = autograd.grad(loss)
start = np.cos(1.3 * np.arange(12))


def case(name, optimizer, options):
    gradients, weights = [], []

    def record(x, i, g):
        gradients.append(g.tolist())
        if i > 0:
            weights.append(x.tolist())

    end = optimizer(gradient, start.copy(), callback=record, num_iters=STEPS, **options)
    weights.append(end.tolist())
    return {
        "name": name,
        "options": options,
        "start": start.tolist(),
        "gradients": gradients,
        "after_each_step": weights,
    }


cases = [
    case("sgd", sgd, {"step_size": 0.05, "mass": 0.8}),
    case("sgd_without_mass", sgd, {"step_size": 0.05, "mass": 0.0}),
    case("rmsprop", rmsprop, {"step_size": 0.02, "gamma": 0.9, "eps": 1e-8}),
    case("adam", adam, {"step_size": 0.03, "b1": 0.9, "b2": 0.99, "eps": 1e-8}),
]
print(json.dumps({"source": f"HIPS/autograd, float64, {STEPS} steps", "cases": cases}))
