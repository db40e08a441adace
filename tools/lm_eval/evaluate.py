"""lm-evaluation-harness against a quern serve that runs: both tasks, in each way that its model `local-completions` asks.
Run by run.py inside its virtual environment, in the folder of the tasks. Writes what came out as JSON.

usage: evaluate.py MODEL.gguf KIND URL WORK OUT.json
KIND is a rule of tools/tokenizer_compare.py ("smollm" ...), whose tokenizer is the harness's own: it counts tokens.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tokenizer_compare  # noqa: E402
import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from tokenizers import decoders  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

# The model's arguments: prompts as ids, one or several at a time, by several connections, or as text.
WAYS = {
    "ids": {"tokenized_requests": True, "batch_size": 1},
    "ids, 4 at once": {"tokenized_requests": True, "batch_size": 4},
    "ids, 3 connections": {"tokenized_requests": True, "batch_size": 2, "num_concurrent": 3},
    "text": {"tokenized_requests": False, "batch_size": 1},
}
EOS = "<|im_end|>"


def save_tokenizer(model, kind, folder):
    vocabulary = tokenizer_compare.Vocabulary(model)
    tokenizer = tokenizer_compare.hf_tokenizer(kind, vocabulary, True)
    tokenizer.decoder = decoders.ByteLevel()  # prompts that go as text are decoded from ids first
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=EOS)
    made.save_pretrained(folder)
    return made


def samples_of(result, task):
    return sorted(result["samples"][task], key=lambda s: s["doc_id"])


def main():
    model, kind, url, work, out = sys.argv[1:]
    folder = str(Path(work) / "tokenizer")
    tokenizer = save_tokenizer(model, kind, folder)
    tasks = TaskManager(include_path=".", include_defaults=False)
    found = {}
    for name, way in WAYS.items():
        args = {"model": "quern", "base_url": url + "/v1/completions", "tokenizer_backend": "huggingface", "tokenizer": folder, "max_length": 1024, **way}
        batch = args.pop("batch_size")
        result = lm_eval.simple_evaluate(model="local-completions", model_args=args, batch_size=batch, tasks=["quern_choice", "quern_generate"], task_manager=tasks,
                                         log_samples=True, bootstrap_iters=0)
        choices, texts = [], []
        for sample in samples_of(result, "quern_choice"):
            arguments = sample["arguments"]
            pairs = [tuple(a.values()) for a in arguments.values()] if isinstance(arguments, dict) else [tuple(a) for a in arguments]
            for (context, continuation), response in zip(pairs, sample["resps"]):
                # The harness scores the tokens of the whole behind those of the context.
                whole, before = (tokenizer.encode(t, add_special_tokens=False) for t in (context + continuation, context))
                (log_likelihood, greedy), = response
                choices.append({"ids": whole, "n_context": len(before), "log_likelihood": float(log_likelihood), "greedy": greedy in (True, "True")})
        for sample in samples_of(result, "quern_generate"):
            (text,), = sample["resps"]
            texts.append({"prompt": sample["doc"]["prompt"], "text": text})
        figures = {task: {k: v for k, v in figures.items() if isinstance(v, float)} for task, figures in result["results"].items()}
        found[name] = {"choices": choices, "texts": texts, "figures": figures}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
