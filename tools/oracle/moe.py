"""Experts in numpy: which ones a token gets, with which weights, and what they make of it.

Routing follows Mixtral and Qwen-MoE (softmax over all, then the best), DeepSeek-V3 and GLM-4.5 (sigmoid, a bias for the
choice alone, groups), gpt-oss (softmax over the chosen) and Llama 4 (sigmoid, weighing the input).
An expert's weights are dequantized while its rows are computed, and then dropped.
"""
import numpy as np

from nonlinear import gelu_tanh, sigmoid, silu, softmax


def best(x, k):
    """int [n, k]: the k largest of each row, largest first, the smaller index where equal."""
    return np.argsort(-x, axis=1, kind="stable")[:, :k]


def only_best_groups(e, choice):
    """choice: [n, experts], with minus infinity where an expert's group is not among the best."""
    if e.groups_used == e.groups:
        return choice
    per = choice.reshape(len(choice), e.groups, -1)
    keep = best(np.sort(per, axis=2)[:, :, -2:].sum(axis=2), e.groups_used)
    out = np.full_like(per, -np.inf)
    np.put_along_axis(out, keep[:, :, None], np.take_along_axis(per, keep[:, :, None], 1), 1)
    return out.reshape(choice.shape)


def route(e, logits, bias):
    """logits: f64 [n, experts], bias: [experts] or None -> the chosen experts and their weights, each [n, used]."""
    scores = {"softmax": softmax, "sigmoid": sigmoid, "softmax of chosen": lambda x: x}[e.gating](logits)
    choice = scores if bias is None or not e.selection_bias else scores + bias
    chosen = best(only_best_groups(e, choice), e.used)
    weights = np.take_along_axis(scores, chosen, axis=1)
    if e.gating == "softmax of chosen":
        weights = softmax(weights)
    if e.normalize:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return chosen, weights * e.scale


def activate(spec, gate, up):
    if not spec.experts.swiglu:
        return (gelu_tanh(gate) if spec.gelu else silu(gate)) * up
    alpha, limit = spec.experts.swiglu
    gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate * sigmoid(alpha * gate) * (up + 1)


def one_expert(spec, layer, number, x):
    """x: [rows, dim] -> [rows, dim]"""
    linear = lambda name, x: layer.expert(name, number, x)
    return linear("ffn_down_exps", activate(spec, linear("ffn_gate_exps", x), linear("ffn_up_exps", x)))


def shared_expert(spec, layer, x):
    gate = layer.linear("ffn_gate_shexp", x)
    gate = gelu_tanh(gate) if spec.gelu else silu(gate)
    y = layer.linear("ffn_down_shexp", gate * layer.linear("ffn_up_shexp", x))
    gate = layer.get("ffn_gate_inp_shexp.weight")
    return y if gate is None else y * sigmoid(x @ gate.reshape(-1, 1))


def routing(spec, layer, x):
    """x: [n, dim] -> chosen and weights, as route() gives them; the router computes in double, so that it decides
    near ties by the values and not by the order of a sum."""
    logits = x.astype(np.float64) @ layer.f_required("ffn_gate_inp.weight").astype(np.float64).T
    router_bias, selection_bias = layer.get("ffn_gate_inp.bias"), layer.get("exp_probs_b.bias")
    return route(spec.experts, logits if router_bias is None else logits + router_bias, selection_bias)


def feed_forward(spec, layer, x):
    """x: [n, dim], normed -> [n, dim]"""
    e = spec.experts
    chosen, weights = routing(spec, layer, x)
    if layer.trace is not None:
        layer.trace.append((x, lambda y: routing(spec, layer, y)[0]))
    parts = np.zeros((len(x), e.used, x.shape[1]), x.dtype)  # by slot, so that slots are summed in their order
    for number in np.unique(chosen):
        rows, slots = np.nonzero(chosen == number)
        w = weights[rows, slots].astype(x.dtype)[:, None]
        if e.weigh_input:
            parts[rows, slots] = one_expert(spec, layer, number, x[rows] * w)
        else:
            parts[rows, slots] = one_expert(spec, layer, number, x[rows]) * w
    y = parts.sum(axis=1)
    if e.shared and layer.get("ffn_up_shexp.weight") is not None:
        y += shared_expert(spec, layer, x)
    return y


def stability(trace, noise, seed=1):
    """trace: of one evaluation, see forward.Layer. How the routers of a network fare: the share of choices, over all
    positions and layers, that change when each router's input is disturbed by `noise` times its size, and the number of
    experts that the least varied layer used."""
    rng = np.random.default_rng(seed)
    changed, fewest = [], 1 << 30
    for x, choose in trace:
        size = np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=1, keepdims=True))
        other = x + noise * size * rng.standard_normal(x.shape)
        before = choose(x)
        changed.append((np.sort(before, 1) != np.sort(choose(other), 1)).any(axis=1))
        fewest = min(fewest, len(np.unique(before)))
    return float(np.mean(changed)), fewest
