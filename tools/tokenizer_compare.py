#!/usr/bin/env python3
"""Compares token ids of Quern with those of llama.cpp and of Hugging Face tokenizers, over random and adversarial strings.

Usage: tokenizer_compare.py [--kinds gpt-2,llama-bpe,...] [-n 100000] [--seed 1] --peer-source DIR --peer-build DIR
                            [--models DIR] [--helper build/release/tests/token/tokenize_lines] [--work DIR] [--show 5]
Kinds `smollm` and `spm` use the vocabularies of smollm2.gguf and gemma3-270m.gguf in --models; every other kind, and those
where the file is absent, a vocabulary trained here on local text with the kind's own rule. The Hugging Face tokenizer is
built from the same GGUF's tokens and merges and the published rule. For SentencePiece vocabularies that library itself is
asked too: GGUF has scores and not merges, so Hugging Face's order of equal scores is a reconstruction there.

Columns: strings whose ids differ from llama.cpp's, from Hugging Face's (from SentencePiece's), strings on which those two
disagree with each other, and strings on which they agree and Quern differs. The exit code is 1 if Quern differs from the
reference (SentencePiece where asked, else Hugging Face) or from both. Then the causes of the peers' disagreement.
With --split, instead, compares only where texts are cut into words: with Hugging Face's splitting and with the published
pattern in Python's regex module. --kinds takes any names of tokenizer.ggml.pre here. Needs neither models nor llama.cpp.
With --goldens, instead, writes the table of tests/token/tokenizer_pre_golden.inc: how Hugging Face's splitting cuts texts.
PyPI: gguf, tokenizers, sentencepiece, protobuf; for --split regex.
"""
import argparse
import collections
import functools
import glob
import os
import random
import struct
import subprocess
import sys
import sysconfig
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_C = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_C}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_C}|\p{{N}}{{1,3}}|{_TAIL}"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|{_TAIL}"

# kind -> (splitting steps, whole words bypass merges, normalizer)
KINDS = {
    "gpt-2": ([GPT2], False, None),
    "llama-bpe": ([LLAMA3], True, None),
    "qwen2": ([QWEN2], False, "NFC"),
    "smollm": (["digits", GPT2], False, None),
    "tekken": ([TEKKEN], True, None),
    "gpt-4o": ([O200K], False, None),
    "spm": None,
    "spm-prefix": None,
    "qwen35": ([QWEN35], False, "NFC"),
    "default": ([r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], False, None),
}
# Further names in GGUF files, by the kind whose cuts they have; the families of Llama 4, gpt-oss, GLM 4 and 5, ChatGLM.
SAME_CUTS = {"llama4": "gpt-4o", "kanana2": "gpt-4o", "glm4": "llama-bpe", "glm5": "llama-bpe", "chatglm-bpe": "llama-bpe",
             "pixtral": "llama-bpe", "deepseek-r1-qwen": "qwen2"}
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "<unk>", "<end_of_turn>"]
USER = ["<think>", "</think>", "<think>>", ">x", "\n\n\n\n", "\t\t"]
SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000"
WORDS = """the quick brown Fox's it's IT'S they'LL we've I'M don't camelCase HTTPServer getHTTPResponseCode naïve Café déjà Über
STRASSE straße ΑΒΓ αβγδ Ωμέγα Привет МИР мир Łódź İstanbul ǅungla ŉ ﬁne ſtep ʰʲʷ ªº हिन्दी नमस्ते ไทยภาษา বাংলা العربية مرحبا
עברית 日本語 テスト ひらがな 漢字仮名 中文字符 한국어 ქართული ᲗᲑᲘᲚᲘ ᏣᎳᎩ Ꮳꮳ 𝐀𝐛 𐐀𐐨 e\u0301 A\u030a o\u0308\u0323 \u1100\u1161\u11a8 \u0958
\u212b \u2126 K def return self.x += {} [] () => != == // /* */ :: -> <div></div> http://a.b/c?d=e&f=1 user@example.com
C:\\path\\n 1st 2nd x1y2 0x1F 3.14 1,000,000 ½ Ⅷ ٣٤٥ ५६ ➀ ² \u0660""".split()
EMOJI = ["😀", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "❤️", "☺", "🏳️‍🌈", "\u200d", "\ufe0f", "\u200b", "\ufeff", "\u00ad"]


def corpus():
    """Local text: Python's library, licences, and words of many scripts."""
    texts = []
    for path in sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))[:160]:
        texts.append(open(path, encoding="utf-8", errors="ignore").read()[:60000])
    for path in sorted(glob.glob("/usr/share/common-licenses/*")):
        texts.append(open(path, encoding="utf-8", errors="ignore").read()[:40000])
    rng = random.Random(7)
    for _ in range(3000):
        texts.append(" ".join(rng.choice(WORDS) + rng.choice(["", "", ".", ",", "\n"]) for _ in range(30)))
    return texts


class Strings:
    """Random strings out of fragments that stress one thing each."""

    def __init__(self, seed, texts):
        self.rng = random.Random(seed)
        self.text = "\n".join(texts[:200])
        self.marks = [chr(c) for c in range(0x300, 0x370)] + ["\u093c", "\u0bbe", "\u20dd", "\u0e31", "\u3099"]
        self.makers = [self.words, self.words, self.words, self.slice, self.slice, self.spaces, self.digits, self.contraction,
                       self.punct, self.emoji, self.marked, self.any_char, self.letters, self.markup, self.run, self.cases]

    def words(self):
        return self.rng.choice(["", " "]).join(" " * self.rng.randint(0, 2) + self.rng.choice(WORDS) for _ in range(4))

    def slice(self):
        at = self.rng.randrange(len(self.text))
        return self.text[at:at + self.rng.randint(1, 60)]

    def spaces(self):
        return "".join(self.rng.choice(SPACES if self.rng.random() < 0.3 else " \n\t\r") for _ in range(self.rng.randint(1, 9)))

    def digits(self):
        pool = "0123456789" if self.rng.random() < 0.6 else "0٣५9½Ⅷ²➀𝟗\u0be7"
        return "".join(self.rng.choice(pool) for _ in range(self.rng.randint(1, 11)))

    def contraction(self):
        word = self.rng.choice(["", "it", "WE", "é", "1", " ", "''"])
        end = self.rng.choice(["s", "S", "t", "re", "RE", "rE", "ve", "m", "ll", "LL", "lL", "d", "l", "r", "ſ", "st", "\u0301"])
        return word + self.rng.choice("'''’`") + end + self.rng.choice(["", " ", "x", "'"])

    def punct(self):
        return "".join(self.rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…—«»、。！¡¿€£©®™°±×÷") for _ in range(self.rng.randint(1, 8)))

    def emoji(self):
        return "".join(self.rng.choice(EMOJI) for _ in range(self.rng.randint(1, 4)))

    def marked(self):
        return "".join(self.rng.choice("aEñoक가あ\u1100 ") * self.rng.randint(0, 1) + self.rng.choice(self.marks)
                       for _ in range(self.rng.randint(1, 6)))

    def any_char(self):
        top = self.rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
        out = []
        while len(out) < 4:
            c = self.rng.randrange(top)
            if not 0xD800 <= c < 0xE000:
                out.append(chr(c))
        return "".join(out)

    def letters(self):
        base = self.rng.choice([0x41, 0x61, 0xC0, 0x100, 0x370, 0x400, 0x530, 0x10A0, 0x1E00, 0x1F00, 0x2C00, 0xA640, 0x10400, 0x1D400])
        return "".join(chr(base + self.rng.randrange(60)) for _ in range(self.rng.randint(1, 8)))

    def markup(self):
        token = self.rng.choice(CONTROL + USER + ["<bos>", "<eos>", "<start_of_turn>", "</s>", "<0x41>", "▁", "▁▁", "<table>", "<unused0>"])
        cut = self.rng.random()
        return token if cut < 0.7 else token[1:] if cut < 0.85 else token[:-1]

    def run(self):
        piece = self.rng.choice(["a", "A", " ", "\n", "0", "=", "中", "é", "\u0301", "ab", "Aa", " \n", "\t", "!", "👍", "▁"])
        return piece * self.rng.choice([3, 5, 17, 33, 64, 300])

    def cases(self):
        return "".join(self.rng.choice("ABCabcÄäßΣσςДдǅʰªم中\u0301'") for _ in range(self.rng.randint(1, 10)))

    def make(self):
        return "".join(self.rng.choice(self.makers)() for _ in range(self.rng.randint(1, 7)))[:1200]


def write_gguf(path, model, pre, tokens, types, merges=None, scores=None, prefix=None):
    out = gguf.GGUFWriter(path, "llama")
    out.add_tokenizer_model(model)
    if pre:
        out.add_tokenizer_pre(pre)
    out.add_token_list(tokens)
    out.add_token_types(types)
    if merges is not None:
        out.add_token_merges([f"{a} {b}" for a, b in merges])
    if scores is not None:
        out.add_token_scores(scores)
    out.add_bos_token_id(tokens.index("<s>"))
    out.add_eos_token_id(tokens.index("<|endoftext|>" if "<|endoftext|>" in tokens else "</s>"))
    out.add_unk_token_id(tokens.index("<unk>"))
    if prefix is not None:
        out.add_add_space_prefix(prefix)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.close()


def split_parts(steps):
    return [pre_tokenizers.Digits(individual_digits=True) if s == "digits" else pre_tokenizers.Split(Regex(s), "isolated") for s in steps]


def splitter(steps):
    return pre_tokenizers.Sequence(split_parts(steps) + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def synthesize(kind, path, texts):
    """Trains a small vocabulary with the kind's rule and writes it as a GGUF without tensors."""
    if kind.startswith("spm"):
        import sentencepiece as sp
        from sentencepiece import sentencepiece_model_pb2 as pb
        base = path[:-5]
        with open(base + ".txt", "w") as f:
            f.write("\n".join(line for t in texts for line in t.split("\n") if line.strip()))
        sp.SentencePieceTrainer.train(input=base + ".txt", model_prefix=base, model_type="bpe", vocab_size=8000, byte_fallback=True,
                                      remove_extra_whitespaces=False, normalization_rule_name="identity", character_coverage=0.9995,
                                      max_sentence_length=20000, user_defined_symbols=["<think>", "</think>", "<think>>"],
                                      allow_whitespace_only_pieces=True, minloglevel=2)
        proto = pb.ModelProto.FromString(open(base + ".model", "rb").read())
        write_gguf(path, "llama", None, [p.piece for p in proto.pieces], [int(p.type) for p in proto.pieces],
                   scores=[p.score for p in proto.pieces], prefix=True)
        return
    hf = Tokenizer(models.BPE())
    hf.pre_tokenizer = splitter(KINDS[kind][0])
    hf.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=7000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    import json
    state = json.loads(hf.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].get)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in state["merges"]]
    types = [1] * len(tokens) + [3] * len(CONTROL) + [4] * len(USER)
    write_gguf(path, "gpt2", kind, tokens + CONTROL + USER, types, merges=merges)


class Vocabulary:
    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        get = lambda key, default=None: fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else default
        self.tokens, self.types = get("tokens"), get("token_type")
        self.merges, self.scores = get("merges"), get("scores")
        self.unk, self.prefix = get("unknown_token_id"), get("add_space_prefix", True)

    def added(self, special):
        kinds = (2, 3, 4) if special else (4,)
        return [t for t, k in zip(self.tokens, self.types) if k in kinds]


def spm_merges(v):
    """Hugging Face's reconstruction: every pair of tokens that makes a token, by score."""
    text = {t: i for i, (t, k) in enumerate(zip(v.tokens, v.types)) if k in (1, 4, 5)}
    found = []
    for token, i in text.items():
        pairs = [(token[:k], token[k:]) for k in range(1, len(token)) if token[:k] in text and token[k:] in text]
        found += [(v.scores[i], a, b) for a, b in sorted(pairs, key=lambda p: (text[p[0]], text[p[1]]))]
    return [(a, b) for _, a, b in sorted(found, key=lambda m: (m[0], len(m[1]), len(m[2])), reverse=True)]


def hf_tokenizer(kind, v, special):
    vocab = {t: i for i, t in enumerate(v.tokens)}
    if kind.startswith("spm"):
        hf = Tokenizer(models.BPE(vocab=vocab, merges=spm_merges(v), unk_token=v.tokens[v.unk], fuse_unk=True, byte_fallback=True))
        replace = normalizers.Replace(" ", "▁")
        hf.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if v.prefix else replace
    else:
        steps, whole, normalizer = KINDS[kind]
        hf = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in v.merges], ignore_merges=whole))
        hf.pre_tokenizer = splitter(steps)
        if normalizer:
            hf.normalizer = normalizers.NFC()
    hf.add_tokens([AddedToken(t, normalized=False, special=False) for t in v.added(special)])
    return hf


def sentencepiece_ids(v, strings):
    """Ids of the SentencePiece library. User-defined tokens are cut out here as GGUF readers do, on the raw text."""
    import sentencepiece as sp
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto()
    proto.trainer_spec.model_type = pb.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = bool(v.prefix)
    proto.normalizer_spec.remove_extra_whitespaces = False
    for i, (token, kind, score) in enumerate(zip(v.tokens, v.types, v.scores)):
        if i != v.unk and kind == 2:
            kind = 3
        proto.pieces.add(piece=token, score=score, type=2 if i == v.unk else 1 if kind == 4 else kind)
    processor = sp.SentencePieceProcessor(model_proto=proto.SerializeToString())
    cutter = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    cutter.add_tokens([AddedToken(t, normalized=False, special=False) for t in v.added(False)])
    index = {t: i for i, t in enumerate(v.tokens)}
    out = []
    for s in strings:
        ids, at, data = [], 0, s
        for token, (begin, end) in zip(cutter.encode(s).tokens, cutter.encode(s).offsets):
            if token == "?":
                continue
            ids += (processor.encode(data[at:begin]) if begin > at else []) + [index[token]]
            at = end
        out.append(ids + (processor.encode(data[at:]) if at < len(data) else []))
    return out


def helper_ids(command, strings):
    data = b"".join(struct.pack("<I", len(b)) + b for b in (s.encode() for s in strings))
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE)
    lines = done.stdout.decode().splitlines()
    if done.returncode != 0 or len(lines) != len(strings):
        sys.exit(f"{' '.join(command)} failed with {done.returncode} after {len(lines)} of {len(strings)} strings")
    return [[int(x) for x in line[1:-1].split(",") if x] for line in lines]


def cause(kind, v, s):
    """Why llama.cpp and Hugging Face may disagree on a string: the first that fits."""
    if KINDS[kind] and KINDS[kind][2] == "NFC" and unicodedata.normalize("NFC", s) != s:
        return "text not in NFC: only Hugging Face normalizes"
    if kind in ("gpt-4o", "tekken"):
        if any(unicodedata.category(c)[0] == "M" for c in s):
            return "combining marks: llama.cpp's rule leaves \\p{M} out of words"
        if any(ord(c) > 127 and unicodedata.category(c) in ("Lu", "Lt", "Ll") for c in s):
            return "cased letters beyond ASCII: llama.cpp knows the case of A-Z only"
    if kind == "spm" and "</s>" in s:
        return "</s> is an HTML tag in this vocabulary; llama.cpp retypes it as control"
    if any(unicodedata.category(c) == "Cn" for c in s):
        return "characters newer than llama.cpp's Unicode tables, or unassigned"
    if "ſ" in s:
        return "long s in a contraction"
    if kind == "smollm" and any(b in (4, 6, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2) for b in s.encode()):
        return "bytes without a token: neighbours merge across the gap only in Hugging Face"
    if any(t in s for t in (">x", "<think>", "\n\n\n\n", "\t\t")):
        return "overlapping added tokens"
    if kind.startswith("spm"):
        return "equal scores: order of merges within repetitions"
    return "other"


def compare(kind, args, strings, texts, peer):
    real = {"smollm": "smollm2.gguf", "spm": "gemma3-270m.gguf"}.get(kind)
    path = os.path.join(args.models, real) if real and args.models else ""
    if not os.path.exists(path):
        path = os.path.join(args.work, f"{kind}.gguf")
        if not os.path.exists(path):
            synthesize(kind, path, texts)
    v = Vocabulary(path)
    part = len(strings) * 4 // 5  # the rest with control tokens parsed
    totals, causes, shown = collections.Counter(), collections.Counter(), 0
    for special, batch in ((False, strings[:part]), (True, strings[part:])):
        flag = ["--special"] if special else []
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(helper_ids, [args.helper, path] + flag, batch)
            theirs = pool.submit(helper_ids, [peer, path] + flag, batch)
            ours, llama = ours.result(), theirs.result()
        hf = [e.ids for e in hf_tokenizer(kind, v, special).encode_batch(batch, add_special_tokens=False)]
        piece = sentencepiece_ids(v, batch) if kind.startswith("spm") and not special else None
        for i, s in enumerate(batch):
            same_llama, same_hf, agree = ours[i] == llama[i], ours[i] == hf[i], llama[i] == hf[i]
            same_piece = piece is None or ours[i] == piece[i]
            totals["llama"] += not same_llama
            totals["hf"] += not same_hf
            totals["piece"] += not same_piece
            totals["peers"] += not agree
            totals["alone"] += agree and not same_llama
            bad = not same_piece if piece else not same_hf and (agree or not kind.startswith("spm"))
            totals["bad"] += bad
            if not agree:
                causes[cause(kind, v, s)] += 1
            if (bad or (not agree and args.show_peers)) and shown < args.show:
                shown += 1
                print(f"  {kind} special={special} {s!r}\n    ours  {ours[i]}\n    llama {llama[i]}\n    hf    {hf[i]}" +
                      (f"\n    piece {piece[i]}" if piece else ""))
    column = lambda x: f"{x:>9}"
    print(f"{kind:<11}" + column(len(strings)) + column(totals["llama"]) + column(totals["hf"]) +
          column(totals["piece"] if kind.startswith("spm") else "-") + column(totals["peers"]) + column(totals["alone"]) +
          f"   {os.path.basename(path)}", flush=True)
    for text, n in causes.most_common():
        print(f"{'':<11}{n:>9} peers disagree: {text}", flush=True)
    return totals["bad"] == 0 and totals["alone"] == 0


def python_words(steps, text):
    """The words by Python's regex module: each step cuts every word of the step before, matches and what is between."""
    import regex
    words = [text]
    for step in steps:
        pattern = regex.compile(r"\p{N}" if step == "digits" else step)
        cut = []
        for word in words:
            at = 0
            for match in pattern.finditer(word):
                cut += [word[at:match.start()], match.group()]
                at = match.end()
            cut.append(word[at:])
        words = [w for w in cut if w]
    return words


def ends_of(words):
    ends, at = [], 0
    for word in words:
        at += len(word.encode())
        ends.append(at)
    return ends


@functools.cache
def changed_characters():
    """The characters that the two regex engines, of different Unicode versions, put into different classes."""
    import regex
    text = "".join(chr(c) for c in [*range(0xD800), *range(0xE000, 0x110000)])
    changed = set()
    for name in (r"\p{Lu}", r"\p{Lt}", r"\p{Ll}", r"\p{Lm}", r"\p{Lo}", r"\p{M}", r"\p{N}", r"\s"):
        pieces = pre_tokenizers.Split(Regex(name), "removed").pre_tokenize_str(text)
        outside = set("".join(w for w, _ in pieces))
        changed |= (set(text) - outside) ^ set(regex.findall(name, text))
    return changed


def compare_split(name, args, strings):
    steps = KINDS[SAME_CUTS.get(name, name)][0]
    split = pre_tokenizers.Sequence(split_parts(steps))
    changed = changed_characters()
    totals, words, shown = collections.Counter(), 0, 0
    for begin in range(0, len(strings), 20000):
        batch = strings[begin:begin + 20000]
        for s, ours in zip(batch, helper_ids([args.helper, "--words", name], batch)):
            theirs = ends_of(w for w, _ in split.pre_tokenize_str(s))
            python = ends_of(python_words(steps, s))
            words += len(ours)
            totals["hf"] += ours != theirs
            if ours != python:
                totals["unicode" if ours == theirs and not changed.isdisjoint(s) else "regex"] += 1
            if (ours != theirs or (ours != python and changed.isdisjoint(s))) and shown < args.show:
                shown += 1
                print(f"  {name} {s!r}\n    ours  {ours}\n    hf    {theirs}\n    regex {python}")
    print(f"{name:<17}{len(strings):>9}{words:>10}{totals['hf']:>9}{totals['regex']:>9}"
          f"{totals['unicode']:>9}", flush=True)
    return totals["hf"] == 0 and totals["regex"] == 0


GOLDEN_TEXTS = [
    "Hello world", "a  b", "a   b", "  a", "a ", "a  ", "\n\nX", "x\n\n  y", " \n \n ", "a\r\nb\r\n", "\tfoo\t\tbar", "it's we'll I'M THEY'RE d'accord",
    "x'\u017f 'S 's' ''s", "'ll", "can't'", "it\u2019s", "1234567 12 3", "a1b22c333d4444", " 12", "٣٤٥٦ ½ Ⅷ²", "3.14,000", "中文字符 漢字", "日本語テスト。はい!",
    "한국어 단어", "😀👨‍👩‍👧‍👦 👍🏽", "🇩🇪❤️", "e\u0301a\u0308 o\u0323", "\u0301abc", " \u0301X", "नमस्ते दुनिया", "a\u00a0b\u00a0\u00a0c", "\u3000x\u2028y\u0085z",
    "camelCase HTTPServer iPhone", "ÄÖÜber ΑΒΓαβγ", "ǅungla ʰX ªº", "ABCʰDEF", "it'S'LL done", "!!!\n\n???", "a/b//c /\n/", "==> {}();\n  return x;\n",
    "<|im_end|>", "http://a.b/c?d=e", "$1 + 2 = 3 ~^|", "_under_score__", "\x00\x01a\x7f", "\ufffd\ue000\U000e0100", "a\u200bb\ufeffc", "\U00011de0\U00011de1x",
]
RULES = {"basic": "default", "gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "qwen35": "qwen35", "smollm": "smollm",
         "o200k": "gpt-4o", "tekken": "tekken"}


def goldens():
    """One row per rule and text. Octal escapes, because a hexadecimal one would swallow letters after it."""
    quote = lambda s: '"' + "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\?' else f"\\{b:03o}" for b in s.encode()) + '"'
    print("// Generated by tools/tokenizer_compare.py --goldens; do not edit. {rule, text, words}")
    for rule, kind in RULES.items():
        steps = KINDS[kind][0]
        for text in GOLDEN_TEXTS:
            words = [w for w, _ in pre_tokenizers.Sequence(split_parts(steps)).pre_tokenize_str(text)]
            assert "".join(words) == text
            size = len(text.encode())
            print(f"{{PreRule::{rule}, {{{quote(text)}, {size}}}, {{{', '.join(f'{{{quote(w)}, {len(w.encode())}}}' for w in words)}}}}},")


def main():
    if "--goldens" in sys.argv:
        return goldens()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("-n", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", default="")
    parser.add_argument("--helper", default="build/release/tests/token/tokenize_lines")
    parser.add_argument("--peer-source", help="llama.cpp's source folder")
    parser.add_argument("--peer-build", help="its build folder, with bin/libllama.so")
    parser.add_argument("--split", action="store_true", help="compare cuts into words only, without llama.cpp")
    parser.add_argument("--work", default="build/tokenizer_compare")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--show-peers", action="store_true", help="show strings on which only the peers disagree")
    args = parser.parse_args()
    if args.split:
        maker = Strings(args.seed, corpus())
        strings = [maker.make() for _ in range(args.n)]
        print(f"{'name':<17}" + "".join(f"{c:>9}" for c in ("strings", "words", "!=HF", "!=regex", "unicode")))
        names = [k for k in args.kinds.split(",") if not k.startswith("spm")]
        if args.kinds == ",".join(KINDS):
            names += SAME_CUTS
        sys.exit(0 if all([compare_split(name, args, strings) for name in names]) else 1)
    if not args.peer_source or not args.peer_build:
        parser.error("--peer-source and --peer-build are needed without --split")
    os.makedirs(args.work, exist_ok=True)
    peer, binaries = os.path.join(args.work, "tokenizer_peer"), os.path.join(args.peer_build, "bin")
    subprocess.run(["g++", "-O2", "-std=c++17", os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_peer.cpp"),
                    f"-I{args.peer_source}/include", f"-I{args.peer_source}/ggml/include", f"-L{binaries}", f"-Wl,-rpath,{binaries}",
                    "-lllama", "-lggml", "-lggml-base", "-o", peer], check=True)
    texts = corpus()
    maker = Strings(args.seed, texts)
    strings = [maker.make() for _ in range(args.n)]
    print(f"{'kind':<11}" + "".join(f"{c:>9}" for c in ("strings", "!=llama", "!=HF", "!=SPM", "peers!=", "alone")) + "   vocabulary")
    ok = [compare(kind, args, strings, texts, peer) for kind in args.kinds.split(",")]
    sys.exit(0 if all(ok) else 1)


if __name__ == "__main__":
    main()
