"""The elementwise functions of the networks, in the precision of their input."""
import numpy as np


def silu(x):
    # exp of a large negative x overflows to inf and the quotient is then the right 0
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return x * (0.5 * (1 + np.tanh(x.dtype.type(0.7978845608028654) * (x + x.dtype.type(0.044715) * x * x * x))))


def softcap(x, cap):
    return np.tanh(x / x.dtype.type(cap)) * x.dtype.type(cap) if cap else x


def softmax(x):
    """Of each row."""
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)
