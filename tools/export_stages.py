"""Exports the stages of a PyTorch model, so that `penstock run` can train it under every schedule.

    python export_stages.py FILE.py:FUNCTION --out FOLDER

FUNCTION takes no arguments and returns a `Job`: the module, an example input of one microbatch, where each stage but
the first one begins, and the loss. The folder then holds one TorchScript file a stage and `stages.json`; a scenario
names it as `model: {..., network: {graphs: FOLDER}}`.

Each stage becomes four functions of its weights. Weights are arguments, because a schedule may keep several versions.

    forward(weights.., input)            -> output, saved..
    backward_input(weights.., saved.., gradient) -> gradient of the input (none on stage 0 of whole numbers), kept..
    backward_weight(weights.., kept..)   -> a gradient for each weight
    backward(weights.., saved.., gradient) -> gradient of the input, a gradient for each weight

They come from one joint graph (`aot_export_joint_simple` of torch), which is cut by what each result needs:

    F: what the output needs   I: what the input's gradient needs beyond F   W: what the weights' gradients need beyond both

A graph holds for one device, data type and shape. Move the module and the example to a GPU to run the stages there. Refused are dropout and other random numbers, buffers that change,
weights that two stages share, and stages that pass anything but one tensor. Tested with torch 2.11.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]


@dataclass
class Job:
    """A model to export. `example` is the input of one microbatch, with the samples in its first dimension.

    `split_before` names the submodules at which a stage begins, as `torch.distributed.pipelining.pipeline` takes them.
    `loss` is "mean_squared_error" or "cross_entropy". Whole-number inputs and targets are drawn below `input_below` and
    `target_below`; other data are normally distributed.
    """

    module: Any
    example: Any
    split_before: Sequence[str] = field(default_factory=tuple)
    loss: str = "mean_squared_error"
    input_below: int = 0
    target_below: int = 0


class ExportError(ValueError):
    """The model cannot be exported. The message says which part of it, and why."""


_LOSSES = ("mean_squared_error", "cross_entropy")
_RANDOM = ("dropout", "bernoulli", "rand", "normal_", "uniform", "multinomial")


def export_stages(job: Job, folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Writes one file a stage and `stages.json` to the folder, and returns what `stages.json` holds."""
    if job.loss not in _LOSSES:
        raise ExportError(f"loss: expected {' or '.join(_LOSSES)}, got {job.loss!r}")
    stages = _stages_of(job)
    _check_weights(stages)
    os.makedirs(folder, exist_ok=True)
    value = job.example
    files = []
    for number, stage in enumerate(stages):
        script, weights, value_out = _exported(stage, value, number)
        name = f"stage-{number}.pt"
        script.save(os.path.join(folder, name))
        files.append({"file": name, "weights": len(weights), "output": list(value_out.shape)})
        value = value_out
    manifest = {
        "format": 1,
        "torch": torch.__version__,
        "type": str(next(p.dtype for s in stages for p in s.parameters())).replace("torch.", ""),
        "device": job.example.device.type,
        "loss": job.loss,
        "input": {"shape": list(job.example.shape), "below": job.input_below},
        "target": {"shape": _target_shape(job.loss, list(value.shape)), "below": job.target_below},
        "stages": files,
    }
    with open(os.path.join(folder, "stages.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")
    return manifest


def _target_shape(loss: str, output: list[int]) -> list[int]:
    return output[:-1] if loss == "cross_entropy" else output


def _stages_of(job: Job) -> list[Any]:
    """Cuts the module with torch's own `pipeline`."""
    if not job.split_before:
        return [job.module]
    from torch.distributed.pipelining import SplitPoint, pipeline

    spec = {name: SplitPoint.BEGINNING for name in job.split_before}
    pipe = pipeline(job.module, mb_args=(job.example,), split_spec=spec)
    return [pipe.get_stage_module(number) for number in range(pipe.num_stages)]


def _check_weights(stages: list[Any]) -> None:
    """Refuses weights that two stages hold. `pipeline` gives each of them the weight under the same name."""
    owner: dict[str, int] = {}
    for number, stage in enumerate(stages):
        for name, _ in stage.named_parameters():
            first = owner.setdefault(name, number)
            if first != number:
                raise ExportError(
                    f"the weight {name} is on stages {first} and {number}: expected weights that one stage holds; "
                    "put both layers on one stage, or give each its own weight"
                )


def _exported(stage: Any, example: Any, number: int) -> tuple[Any, list[Any], Any]:
    """Returns the functions of a stage, its weights, and its output for the example."""
    names = [name for name, _ in stage.named_parameters()]
    buffers = [name for name, _ in stage.named_buffers()]
    weights = [parameter.detach().clone().requires_grad_(True) for parameter in stage.parameters()]
    constants = [buffer.detach().clone() for buffer in stage.buffers()]
    floating = example.is_floating_point()
    value = example.detach().clone().requires_grad_(floating)

    def run(*arguments: Any) -> tuple[Any]:
        state = dict(zip(names + buffers, arguments))
        output = torch.func.functional_call(stage, state, (arguments[-1],))
        output = output[0] if isinstance(output, (tuple, list)) and len(output) == 1 else output
        if not isinstance(output, torch.Tensor):
            raise ExportError(f"stage {number}: expected one tensor as its output, got {type(output).__name__}")
        return (output.clone(),)  # torch exports no output that is a view; _Cut takes the copy away again

    from torch._functorch.aot_autograd import aot_export_joint_simple

    arguments = (*weights, *constants, value)
    try:
        joint = aot_export_joint_simple(run, arguments, trace_joint=True)
    except RuntimeError as error:
        if "support input mutations" in str(error):
            raise ExportError(
                f"stage {number}: a buffer of it changes in the forward pass, as in batch normalization in training: "
                "expected a forward pass that is a function of weights and input"
            ) from error
        raise
    _refuse_random(joint, number)
    results = joint.graph.find_nodes(op="output")[0].args[0]
    for name, gradient in zip(names, results[1:]):
        if gradient is None:
            raise ExportError(
                f"stage {number}: the weight {name} has no gradient: expected weights that the output depends on; "
                "remove the weight, or make it a buffer"
            )
    cut = _Cut(joint, len(weights), constants, floating)
    return cut.script(weights, value), weights, run(*arguments)[0].detach()


def _refuse_random(joint: Any, number: int) -> None:
    for node in joint.graph.nodes:
        target = str(node.target)
        if node.op == "call_function" and any(word in target for word in _RANDOM):
            raise ExportError(
                f"stage {number}: {target} draws random numbers: expected none, since the backward pass and each "
                "schedule must see the same; call module.eval() or set the probability of dropout to 0"
            )


class _Cut:
    """The joint graph of a stage, cut into its functions."""

    def __init__(self, joint: Any, weights: int, constants: list[Any], has_gradient: bool) -> None:
        self._joint = joint
        nodes = list(joint.graph.nodes)
        places = [node for node in nodes if node.op == "placeholder"]
        self._weights = places[:weights]
        buffers = places[weights : weights + len(constants)]
        self._input, self._gradient = places[weights + len(constants)], places[weights + len(constants) + 1]
        for position, (node, constant) in enumerate(zip(buffers, constants)):
            self._bake(node, f"penstock_buffer_{position}", constant)
        results = joint.graph.find_nodes(op="output")[0].args[0]
        self._output = results[0].args[0]
        self._weight_gradients = list(results[1 : 1 + weights])
        self._input_gradient = results[-1] if has_gradient else None
        self._order = {node: position for position, node in enumerate(joint.graph.nodes)}
        self._of_forward = self._needed([self._output], set())
        self._of_input = self._needed([self._input_gradient], self._of_forward)
        self._of_weight = self._needed(self._weight_gradients, self._of_forward | self._of_input)
        self._saved = self._crossing(self._of_input | self._of_weight, [self._input_gradient, *self._weight_gradients],
                                     self._of_forward | {self._input})
        self._kept = self._crossing(self._of_weight, self._weight_gradients,
                                    self._of_forward | self._of_input | {self._input, self._gradient})

    def script(self, weights: list[Any], value: Any) -> Any:
        """Returns a TorchScript module with the four functions and the weights with which training begins."""
        weights = [weight.detach() for weight in weights]
        script = self._defined(weights, set())
        shared = self._shared(script, weights, value.detach())
        return self._defined(weights, shared) if shared else script

    def _defined(self, weights: list[Any], copied: set[int]) -> Any:
        holder = type("Stage", (torch.nn.Module,), {})()  # a class of its own, because TorchScript caches by class
        for position, weight in enumerate(weights):
            holder.register_buffer(f"weight_{position}", weight.clone())
        for node in self._joint.graph.nodes:
            if node.op == "get_attr":
                holder.register_buffer(_name(node), getattr(self._joint, node.target).detach().clone())
        script = torch.jit.script(holder)
        gradients = [(node, position in copied) for position, node in enumerate(self._weight_gradients)]
        input_gradient = [] if self._input_gradient is None else [(self._input_gradient, False)]
        from_saved = [*self._weights, *self._saved, self._gradient]
        saved, kept = ([(node, False) for node in nodes] for nodes in (self._saved, self._kept))
        script.define(self._source("forward", [*self._weights, self._input], [(self._output, False), *saved]))
        script.define(self._source("backward_input", from_saved, [*input_gradient, *kept]))
        script.define(self._source("backward_weight", [*self._weights, *self._kept], gradients))
        script.define(self._source("backward", from_saved, [*input_gradient, *gradients]))
        return script

    def _shared(self, script: Any, weights: list[Any], value: Any) -> set[int]:
        """Returns which gradients of weights share memory with an argument or an earlier gradient. The sums of
        gradients change in place, so these gradients are copied."""
        with torch.no_grad():
            output, *saved = script.forward(*weights, value)
            arguments = [*weights, *saved, torch.randn_like(output)]
            gradients = script.backward(*arguments)[0 if self._input_gradient is None else 1 :]
        used = {argument.untyped_storage().data_ptr() for argument in arguments}
        shared = set()
        for position, gradient in enumerate(gradients):
            memory = gradient.untyped_storage().data_ptr()
            if memory in used:
                shared.add(position)
            used.add(memory)
        return shared

    def _bake(self, node: Any, name: str, constant: Any) -> None:
        self._joint.register_buffer(name, constant)
        with self._joint.graph.inserting_before(node):
            node.replace_all_uses_with(self._joint.graph.get_attr(name))
        self._joint.graph.erase_node(node)

    def _needed(self, results: list[Any], known: set[Any]) -> set[Any]:
        """Returns the computed nodes that the results need and that are not known. A part of a tuple counts as soon
        as the tuple is computed, so that only tensors cross from one function to another."""
        found: set[Any] = set()
        waiting = [node for node in results if node is not None]
        while waiting:
            node = waiting.pop()
            if node in found or node in known or node.op in ("placeholder", "get_attr"):
                continue
            found.add(node)
            waiting += node.all_input_nodes
            waiting += [user for user in node.users if _is_part(user)]
        return found

    def _crossing(self, users: set[Any], results: list[Any], producers: set[Any]) -> list[Any]:
        """Returns what the users and the results take from the producers, in the order of the graph."""
        waiting = [source for user in users for source in user.all_input_nodes] + list(results)
        taken: set[Any] = set()
        while waiting:
            node = waiting.pop()
            if node not in producers or node in taken:
                continue
            if _is_view(node):  # a view is made again, so that a view of a weight is not kept as an activation
                waiting += node.all_input_nodes
            else:
                taken.add(node)
        return sorted(taken, key=self._order.__getitem__)

    def _source(self, name: str, inputs: list[Any], results: list[tuple[Any, bool]]) -> str:
        """Returns the TorchScript of a function from the inputs to the results. The flag of a result asks for a copy."""
        needed: set[Any] = set()
        waiting = [node for node, _ in results]
        while waiting:
            node = waiting.pop()
            if node in needed or node in inputs:
                continue
            needed.add(node)
            waiting += node.all_input_nodes
        lines = [f"def {name}({', '.join(['self', *map(_name, inputs)])}) -> List[Tensor]:"]
        for node in self._joint.graph.nodes:
            if node in needed:
                lines.append(f"    {_name(node)} = {_call(node)}")
        shown = [_name(node) + (".clone()" if copied else "") for node, copied in results]
        lines.append(f"    results: List[Tensor] = [{', '.join(shown)}]")
        lines.append("    return results")
        return "\n".join(lines) + "\n"


_VIEWS = ("t", "view", "_unsafe_view", "transpose", "permute", "expand", "detach", "unsqueeze", "squeeze", "slice",
          "select", "alias")


def _is_view(node: Any) -> bool:
    return node.op == "call_function" and _operator(node) in _VIEWS


def _operator(node: Any) -> str:
    return str(getattr(node.target, "__name__", node.target)).split(".")[0]


def _name(node: Any) -> str:
    return f"v_{node.name}" if node.op != "get_attr" else f"constant_{node.target}"


def _call(node: Any) -> str:
    """Returns the expression of a node in TorchScript."""
    if node.op == "get_attr":
        return f"self.{_name(node)}"
    if _is_part(node):
        return f"{_name(node.args[0])}[{node.args[1]}]"
    parts = [_literal(argument) for argument in node.args]
    parts += [f"{key}={_literal(argument)}" for key, argument in node.kwargs.items() if argument is not None]
    return f"torch.ops.{node.target.namespace}.{node.target._opname}({', '.join(parts)})"


def _literal(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return _name(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)


def _is_part(node: Any) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem"


def _job_of(text: str) -> Job:
    path, _, name = text.rpartition(":")
    if not path:
        raise ExportError(f"expected FILE.py:FUNCTION, got {text!r}")
    spec = importlib.util.spec_from_file_location("exported_model", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ExportError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["exported_model"] = module
    spec.loader.exec_module(module)
    function: Callable[[], Any] | None = getattr(module, name, None)
    if function is None:
        raise ExportError(f"{path}: expected a function {name}, found none")
    job = function()
    if hasattr(job, "module") and hasattr(job, "example"):
        return Job(**{key: getattr(job, key) for key in Job.__dataclass_fields__ if hasattr(job, key)})
    raise ExportError(f"{path}:{name}: expected a Job, or an object with its fields, got {type(job).__name__}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Exports the stages of a PyTorch model for `penstock run`.")
    parser.add_argument("model", metavar="FILE.py:FUNCTION", help="a function that returns a Job")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="where the stages are written")
    arguments = parser.parse_args()
    try:
        manifest = export_stages(_job_of(arguments.model), arguments.out)
    except ExportError as error:
        print(f"export_stages: {error}", file=sys.stderr)
        return 2
    print(f"{len(manifest['stages'])} stages of {manifest['type']} in {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
