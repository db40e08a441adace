// The option table of the quern program. A new option is a row here; help, environment and docs/OPTIONS.md follow.
#include "apps/quern/command.h"

namespace quern::apps {
namespace {

constexpr OptionType kFlag = OptionType::flag, kInteger = OptionType::integer, kIntegers = OptionType::integers,
                     kReal = OptionType::real, kText = OptionType::text, kChoice = OptionType::choice;

// [[model]] is no command but a table of the configuration file of serve (kModelTable).
#define QUERN_SERVING "serve [[model]]"
#define QUERN_GENERATING "run chat"
#define QUERN_REPLYING QUERN_GENERATING " " QUERN_SERVING
#define QUERN_EVALUATING QUERN_REPLYING " plan logits embed bench profile eval"
#define QUERN_WITH_MODEL "run chat info plan tokenize logits embed bench profile tune eval convert"

// clang-format off
// commands, name, letter, type, placeholder, default, min, max, choices, environment, repeats, help
constexpr OptionRow kRows[] = {
    {QUERN_WITH_MODEL, "model", "m", kText, "FILE|NAME", "smollm2-135m", 0, 0, "", "QUERN_MODEL", false,
     "a GGUF file (any shard of a set), or a name of `quern models list`, which is downloaded when absent"},
    {"doctor", "model", "m", kText, "FILE|NAME", "", 0, 0, "", "", false, "also say whether this model fits into memory"},
    {"serve", "model", "m", kText, "[ID=]FILE|NAME", "smollm2-135m", 0, 0, "", "QUERN_MODEL", true,
     "a model to serve, and under which name; the first one is loaded at the start, others when they are asked for"},
    {"[[model]]", "path", "", kText, "FILE", "", 0, 0, "", "", false, "a GGUF file (any shard of a set); a model has this or `name`"},
    {"[[model]]", "name", "", kText, "NAME", "", 0, 0, "", "", false, "a name of `quern models list`, which is downloaded when absent"},
    {"[[model]]", "id", "", kText, "ID", "", 0, 0, "", "", false, "what clients call it; else its name, or the file's without folder and ending"},
    {"[[model]]", "preload", "", kFlag, "", "", 0, 0, "", "", false, "load it at the start; where this is not said, the first model is, and others when they are asked for"},
    {"serve", "config", "", kText, "FILE", "", 0, 0, "", "QUERN_CONFIG", false, "read options and models from this TOML file (docs/CONFIG.md)"},
    {"serve", "check-config", "", kFlag, "", "", 0, 0, "", "", false, "check options, file and models, print what would be served, and end"},
    {"serve", "host", "", kText, "ADDRESS", "127.0.0.1", 0, 0, "", "QUERN_HOST", false, "the address to listen on; one that others reach needs --api-key"},
    {"serve", "port", "", kInteger, "N", "8080", 0, 65535, "", "QUERN_PORT", false, "the port to listen on; 0: one that is free"},
    {"serve", "api-key", "", kText, "KEY", "", 0, 0, "", "QUERN_API_KEY", true, "ask clients for this key (Authorization: Bearer KEY, or x-api-key: KEY)"},
    {"serve", "allow-host", "", kText, "NAME", "", 0, 0, "", "", true, "a name of this server that clients may use beside localhost; *: any"},
    {"serve", "cors-origin", "", kText, "ORIGIN", "", 0, 0, "", "", true, "let pages of this origin (https://a.example) ask from a browser; *: all pages"},
    {"serve", "tls-cert", "", kText, "FILE", "", 0, 0, "", "", false, "serve by TLS with this certificate chain (PEM)"},
    {"serve", "tls-key", "", kText, "FILE", "", 0, 0, "", "", false, "the key of --tls-cert (PEM)"},
    {QUERN_SERVING, "parallel", "", kInteger, "N", "8", 1, 64, "", "QUERN_PARALLEL", false, "requests of a model that run together"},
    {QUERN_SERVING, "queue", "", kInteger, "N", "128", 0, 100000, "", "", false, "requests of a model that may wait; more are refused with 429"},
    {QUERN_SERVING, "kv-mib", "", kInteger, "MIB", "0", 0, 100000000, "", "", false, "memory for keys and values of a model; 0: enough for all full contexts, at most a quarter of what is free"},
    {"serve", "memory-mib", "", kInteger, "MIB", "0", 0, 100000000, "", "", false, "memory for all loaded models together; 0: no bound"},
    {"serve", "prefix-cache-dir", "", kText, "FOLDER", "", 0, 0, "", "QUERN_PREFIX_CACHE_DIR", false, "keep the prefix cache in this folder when a model is unloaded, and begin with it the next time"},
    {"serve", "prefix-cache-size", "", kInteger, "MIB", "1024", 1, 100000000, "", "", false, "what the folder of --prefix-cache-dir may hold, of all models"},
    {QUERN_SERVING, "idle-unload", "", kInteger, "SECONDS", "0", 0, 1000000000, "", "", false, "unload a model that nobody asked for so long; 0: never"},
    {"serve", "store", "", kInteger, "N", "1000", 0, 1000000, "", "", false, "answers of /v1/responses kept for GET and previous_response_id; 0: none"},
    {"serve", "store-mib", "", kInteger, "MIB", "64", 1, 1000000, "", "", false, "memory for them; the oldest go first"},
    {QUERN_SERVING " embed", "pooling", "", kChoice, "WORD", "auto", 0, 0, "auto|mean|cls|last", "", false,
     "how the states of a text's tokens become its embedding: their mean, the first, the last; auto: as the model's file says, else last"},
    {"serve", "max-body", "", kInteger, "MIB", "8", 1, 1024, "", "", false, "the longest request"},
    {"serve", "max-connections", "", kInteger, "N", "256", 1, 10000, "", "", false, "connections at a time"},
    {"serve", "ping", "", kReal, "SECONDS", "5", 0.05, 30, "", "", false, "how often a stream that waits sends a comment"},
    {"serve", "drain", "", kReal, "SECONDS", "30", 0, 3600, "", "", false, "how long answers may go on after SIGTERM or Ctrl-C; a second one ends them at once"},
    {"run", "prompt", "p", kText, "TEXT", "", 0, 0, "", "", false, "what to answer; also as arguments, or - to read standard input"},
    {QUERN_GENERATING, "max-tokens", "n", kInteger, "N", "1024", 0, 1000000000, "", "", false, "stop an answer after N tokens"},
    {QUERN_REPLYING, "temp", "", kReal, "T", "0.8", 0, 100, "", "", false, "temperature; 0 always takes the most likely token"},
    {QUERN_REPLYING, "top-k", "", kInteger, "N", "40", 0, 1000000000, "", "", false, "sample from the N most likely tokens; 0: from all"},
    {QUERN_REPLYING, "top-p", "", kReal, "P", "0.95", 0, 1, "", "", false, "sample from the fewest tokens whose probabilities reach P; 1: from all"},
    {QUERN_REPLYING, "min-p", "", kReal, "P", "0.05", 0, 1, "", "", false, "leave out tokens less likely than P times the most likely; 0: none"},
    {QUERN_REPLYING, "repeat-penalty", "", kReal, "X", "1", 0.01, 100, "", "", false, "divide the odds of tokens that occurred lately; 1: off"},
    {QUERN_REPLYING, "repeat-last-n", "", kInteger, "N", "64", 0, 1000000000, "", "", false, "how many tokens count as lately for the penalties"},
    {QUERN_REPLYING, "presence-penalty", "", kReal, "X", "0", -100, 100, "", "", false, "subtract from the logits of tokens that occurred lately"},
    {QUERN_REPLYING, "frequency-penalty", "", kReal, "X", "0", -100, 100, "", "", false, "the same, times how often they occurred"},
    {QUERN_GENERATING, "seed", "s", kInteger, "N", "0", 0, 9007199254740991, "", "", false, "of the sampler; the same seed gives the same answer"},
    {QUERN_GENERATING, "system", "", kText, "TEXT", "", 0, 0, "", "", false, "the system message"},
    {QUERN_GENERATING, "raw", "", kFlag, "", "", 0, 0, "", "", false, "no chat template: continue the text as it is; control tokens in it are recognised"},
    {QUERN_GENERATING, "reasoning", "", kChoice, "WORD", "auto", 0, 0, "auto|show|hide", "", false,
     "what the model thinks before it answers: auto shows it dimmed on a terminal, and not where the answer goes elsewhere; show marks it there"},
    {QUERN_REPLYING, "reasoning-effort", "", kChoice, "WORD", "auto", 0, 0, "auto|low|medium|high", "", false,
     "how much to think, where the model's chat template takes that (gpt-oss)"},
    {QUERN_REPLYING, "thinking", "", kChoice, "WORD", "auto", 0, 0, "auto|on|off", "", false,
     "whether to think at all, where the model's chat template takes that (Qwen 3)"},
    {QUERN_REPLYING " logits embed", "ctx", "c", kInteger, "N", "0", 0, 16777216, "", "QUERN_CTX", false, "positions to make room for; 0: the model's own number, at most 8192"},
    {"eval", "ctx", "c", kInteger, "N", "512", 8, 16777216, "", "", false, "tokens of one window"},
    {QUERN_REPLYING " plan logits embed profile tune eval convert", "threads", "t", kInteger, "N", "0", 0, 4096, "", "QUERN_THREADS", false,
     "threads; 0: as tuned, else one per usable physical core, within the cgroup's quota"},
    {"bench", "threads", "t", kIntegers, "N,..", "0", 0, 4096, "", "QUERN_THREADS", false,
     "thread counts to measure; 0: as tuned, else one per usable physical core, within the cgroup's quota"},
    {QUERN_EVALUATING " tune", "chunk", "", kInteger, "N", "512", 1, 65536, "", "", false, "prompt tokens to evaluate at once; any number gives the same bits"},
    {QUERN_EVALUATING " convert doctor", "isa", "", kChoice, "NAME", "auto", 0, 0, "auto|generic|avx2|avx512|neon", "QUERN_ISA", false,
     "the instruction set of the kernels; auto: the best of this processor"},
    {QUERN_EVALUATING, "no-fuse", "", kText, "NAME", "", 0, 0, "", "QUERN_NO_FUSE", true, "leave out the fusion NAME (quern plan lists them); all: every one"},
    {QUERN_EVALUATING " tune", "image", "", kChoice, "MODE", "auto", 0, 0, "auto|map|off", "QUERN_IMAGE", false,
     "packed weights: auto keeps them in the cache folder and reads them from there; map, and does not copy them into memory; off packs at each start"},
    {QUERN_EVALUATING, "tune", "", kChoice, "WORD", "auto", 0, 0, "auto|off", "QUERN_TUNE", false, "auto: kernels and threads as `quern tune` found them on this machine; off: the defaults"},
    {"convert", "list", "", kFlag, "", "", 0, 0, "", "", false, "list the prepared images: size, state, model"},
    {"convert", "verify", "", kFlag, "", "", 0, 0, "", "", false, "check every byte of the prepared images against its checksum"},
    {"convert", "clean", "", kFlag, "", "", 0, 0, "", "", false, "delete prepared images that no model file wants any more, and unfinished ones"},
    {"convert", "all", "", kFlag, "", "", 0, 0, "", "", false, "with --clean: delete every prepared image"},
    {"tokenize", "detokenize", "", kFlag, "", "", 0, 0, "", "", false, "the other way: ids (JSON list, or numbers with commas or spaces) to text"},
    {"tokenize", "special", "", kFlag, "", "", 0, 0, "", "", false, "recognise control tokens in the text, and add those that the model wants around it"},
    {"logits embed", "tokens", "", kText, "IDS", "", 0, 0, "", "", false, "token ids: 1,2,3 or @FILE.json (a list) or @FILE.npy (integers)"},
    {"logits", "output", "o", kText, "FILE", "", 0, 0, "", "", false, "the .npy file to write, f32 [tokens, vocabulary]"},
    {"bench", "n-prompt", "p", kIntegers, "N,..", "512", 0, 16777216, "", "", false, "prompt lengths to measure; 0: none"},
    {"bench", "n-gen", "n", kIntegers, "N,..", "128", 0, 16777216, "", "", false, "generation lengths to measure; 0: none"},
    {"bench", "n-depth", "d", kIntegers, "N,..", "0", 0, 16777216, "", "", false, "tokens already in the context before measuring"},
    {"bench", "repetitions", "r", kInteger, "N", "5", 1, 100000, "", "", false, "how often each test is timed"},
    {"bench", "batch", "b", kIntegers, "N,..", "1", 1, 64, "", "", false, "sequences that generate together; their tokens per second add up"},
    {"bench", "turns", "", kInteger, "N", "0", 0, 1000, "", "", false, "also time a chat of N turns: ms to the first token of each, what came before being reused"},
    {"bench", "turn-tokens", "", kInteger, "N", "128", 1, 1000000, "", "", false, "tokens that each turn of --turns adds"},
    {"bench", "against", "", kText, "COMMAND", "", 0, 0, "", "", true,
     "alternate with a peer's llama-bench: its path and its own options (\"PATH -rtr 1\"); before it version=TEXT where it does not know its own"},
    {"bench", "rounds", "", kInteger, "N", "6", 1, 100000, "", "", false, "turns of each program, in the order A B, B A, A B, ...; without --against 1"},
    {"bench", "cool-down", "", kReal, "SECONDS", "1", 0, 3600, "", "", false, "pause between turns"},
    {"bench profile", "record", "", kText, "PATH", "", 0, 0, "", "", false,
     "append to the records of this machine: a .json file, or the folder of a file named after the processor"},
    {"bench profile", "note", "", kText, "TEXT", "", 0, 0, "", "", false, "what the records should say beside the figures"},
    {"bench", "output", "o", kChoice, "FORMAT", "md", 0, 0, "md|json|jsonl|csv", "", false, "the form of the results"},
    {"bench", "no-warmup", "", kFlag, "", "", 0, 0, "", "", false, "leave out the untimed run before each test"},
    {"profile", "n-prompt", "p", kInteger, "N", "512", 0, 16777216, "", "", false, "tokens of the prompt; 0: no prompt"},
    {"profile", "n-gen", "n", kInteger, "N", "64", 0, 16777216, "", "", false, "tokens to generate; 0: none"},
    {"profile", "n-depth", "d", kInteger, "N", "0", 0, 16777216, "", "", false, "tokens already in the context before measuring"},
    {"profile", "repetitions", "r", kInteger, "N", "3", 1, 100000, "", "", false, "how often each phase is timed"},
    {"profile", "output", "o", kChoice, "FORMAT", "md", 0, 0, "md|json", "", false, "the form of the results"},
    {"profile", "trace", "", kText, "FILE", "", 0, 0, "", "", false, "also write the first prompt and a few tokens as trace events (JSON, for Perfetto)"},
    {"tune", "seconds", "", kReal, "S", "60", 1, 86400, "", "", false, "about how long to measure"},
    {"tune", "dry-run", "", kFlag, "", "", 0, 0, "", "", false, "measure and print, but write nothing"},
    {"board", "records", "", kText, "FOLDER", "records", 0, 0, "", "", false, "where the records are (*.json)"},
    {"board", "output", "o", kText, "FILE", "records/board.html", 0, 0, "", "", false, "the page to write; -: standard output"},
    {"doctor", "roofline", "", kFlag, "", "", 0, 0, "", "", false, "also measure memory, caches and arithmetic (about two seconds)"},
    {"eval", "file", "f", kText, "FILE", "", 0, 0, "", "", false, "the text to evaluate"},
    {"eval", "chunks", "", kInteger, "N", "0", 0, 1000000000, "", "", false, "evaluate only the first N windows; 0: all"},
    {"eval", "save-logits", "", kText, "FILE", "", 0, 0, "", "", false, "write the logits of the scored positions to FILE (.npy)"},
    {"eval", "against-logits", "", kText, "FILE", "", 0, 0, "", "", false, "compare with logits that --save-logits wrote"},
    {"info doctor models tune eval", "json", "", kFlag, "", "", 0, 0, "", "", false, "print JSON"},
    {"info", "full", "", kFlag, "", "", 0, 0, "", "", false, "print long metadata arrays and strings in full"},
    {QUERN_WITH_MODEL " models doctor serve", "cache", "", kText, "FOLDER", "", 0, 0, "", "QUERN_CACHE", false,
     "where models, prepared images, what was tuned and the chat's history are kept; else XDG_CACHE_HOME/quern, else ~/.cache/quern"},
    {QUERN_WITH_MODEL " models serve", "verbose", "v", kFlag, "", "", 0, 0, "", "", false, "say more on standard error"},
    {"help", "markdown", "", kFlag, "", "", 0, 0, "", "", false, "print docs/OPTIONS.md"},
    {"help", "completion", "", kChoice, "SHELL", "", 0, 0, "bash|zsh|fish", "", false, "print a completion script for this shell"},
    {"help", "man", "", kFlag, "", "", 0, 0, "", "", false, "print the manual page (roff)"},
};
// clang-format on

constexpr EnvRow kOthers[] = {
    {"HOME", "where the cache folder is when neither QUERN_CACHE nor XDG_CACHE_HOME is set"},
    {"NOTIFY_SOCKET", "set by systemd: `quern serve` says there when it is ready and when it stops"},
    {"NO_COLOR", "set to anything: no colours"},
    {"TERM", "dumb, or not set: no colours and no progress bar"},
    {"XDG_CACHE_HOME", "the cache folder is XDG_CACHE_HOME/quern"},
};

}  // namespace

std::span<const OptionRow> option_rows() {
  return kRows;
}
std::span<const EnvRow> other_variables() {
  return kOthers;
}

}  // namespace quern::apps
