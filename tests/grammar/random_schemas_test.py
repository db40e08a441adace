#!/usr/bin/env python3
"""A thousand random schemas: what the grammar lets through must satisfy jsonschema, and so must every small change of
such a text that the grammar still lets through.   usage: random_schemas_test.py [N [SEED]]

QUERN_GRAMMAR_RANDOM is the program of grammar_random.cpp.
"""
import json
import os
import random
import subprocess
import sys

import jsonschema

N = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri", "hostname", "json-pointer"]
PATTERNS = [r"^[a-z]{2,5}$", r"^\d{3}-\d{4}$", r"x", r"^(foo|ba[rz])+$", r"^[A-Z][a-z]*( [A-Z][a-z]*)?$", r"\d\d", r"^a.c$", r'["\\]',
            r"^(\d+|imap:[A-Za-z0-9_-]+)$", r"end$", r"^[^\n]{0,4}$", r"^\u00e9+$", r"^$|^z{3,}$"]
NAMES = ["a", "b", "name", "na\"me", "é", "x y", "a/b", "aa", "", "count"]


class Maker:
    def __init__(self, rng):
        self.rng, self.n_defs = rng, 0

    def coin(self, p=0.5):
        return self.rng.random() < p

    def value(self, depth=0):
        kind = self.rng.randrange(7 if depth < 2 else 5)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(3))]
        if kind == 6:
            return {name: self.value(depth + 1) for name in self.rng.sample(NAMES, self.rng.randrange(3))}
        return [None, self.coin(), self.rng.randrange(-50, 50), self.rng.choice(["", "red", "né\"\\\n", "a b"]), self.rng.choice([0.5, -2.25, 1e20])][kind]

    def string(self):
        schema = {"type": "string"}
        kind = self.rng.randrange(5)
        if kind == 0:
            schema["format"] = self.rng.choice(FORMATS)
        elif kind == 1:
            schema["pattern"] = self.rng.choice(PATTERNS)
        if kind in (1, 2, 3) and self.coin():
            low = self.rng.randrange(6)
            schema["minLength"] = low
        if kind in (1, 2, 3) and self.coin():
            schema["maxLength"] = schema.get("minLength", 0) + self.rng.choice([0, 1, 5, 40])
        return schema

    def number(self):
        schema = {"type": self.rng.choice(["integer", "number"])}
        low = self.rng.choice([-1000, -7, 0, 0, 1, 3, 99, -0.5, 2.75, 0.001])
        if self.coin(0.4):
            schema[self.rng.choice(["minimum", "exclusiveMinimum"])] = low
        if self.coin(0.4):
            schema[self.rng.choice(["maximum", "exclusiveMaximum"])] = low + self.rng.choice([2, 7, 250, 12345])
        if schema["type"] == "integer" and self.coin(0.2):
            schema["multipleOf"] = self.rng.choice([1, 2, 5, 7, 100])
        return schema

    def array(self, depth):
        schema = {"type": "array"}
        if self.coin(0.3):
            schema["prefixItems"] = [self.schema(depth + 1) for _ in range(self.rng.randrange(1, 3))]
        if self.coin(0.8):
            schema["items"] = self.schema(depth + 1) if self.coin(0.9) else False
        if self.coin(0.3):
            schema["minItems"] = self.rng.randrange(3)
        if self.coin(0.3):
            schema["maxItems"] = schema.get("minItems", 0) + self.rng.randrange(3)
        return schema

    def object(self, depth):
        schema = {"type": "object"}
        names = self.rng.sample(NAMES, self.rng.randrange(5))
        if names or self.coin():
            schema["properties"] = {name: self.schema(depth + 1) for name in names}
        if names and self.coin(0.7):
            schema["required"] = self.rng.sample(names, self.rng.randrange(len(names) + 1))
        if self.coin(0.5):
            schema["additionalProperties"] = self.rng.choice([True, False, self.schema(depth + 1)])
        if self.coin(0.1):
            schema["minProperties"] = self.rng.randrange(2)
        if self.coin(0.1):
            schema["maxProperties"] = max(len(schema.get("required", [])), self.rng.randrange(4))
        return schema

    def combined(self, depth):
        kind = self.rng.randrange(4)
        if kind == 0:
            return {"anyOf": [self.schema(depth + 1) for _ in range(self.rng.randrange(1, 4))]}
        if kind == 1:
            tags = self.rng.sample(["cat", "dog", "cow"], 2)
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": t}, "v": self.schema(depth + 1)},
                               "required": ["kind"], "additionalProperties": False} for t in tags]}
        if kind == 2:
            return {"oneOf": [self.string(), self.number(), {"type": "null"}]}
        both = self.object(depth + 1)
        return {"allOf": [both, {"properties": {"z": self.schema(depth + 1)}, "required": ["z"] if self.coin() else []}],
                "description": "both"}

    def schema(self, depth=0):
        kind = self.rng.randrange(12)
        if depth > 3:
            kind = self.rng.randrange(6)
        if kind in (0, 1):
            return self.string()
        if kind == 2:
            return self.number()
        if kind == 3:
            values = [self.value() for _ in range(self.rng.randrange(1, 5))]
            schema = {"const": values[0]} if self.coin(0.3) else {"enum": values}
            if self.coin(0.2):
                schema["type"] = ["string", "integer", "null", "boolean", "object", "array", "number"]
            return schema
        if kind == 4:
            return self.rng.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"], "maxLength": 6}, True, {}])
        if kind == 5 and self.n_defs:
            return {"$ref": f"#/$defs/d{self.rng.randrange(self.n_defs)}"}
        if kind in (5, 6, 7):
            return self.array(depth)
        if kind in (8, 9, 10):
            return self.object(depth)
        return self.combined(depth)

    def whole(self):
        self.n_defs = self.rng.randrange(3)
        n, definitions = self.n_defs, {}
        for i in range(n):
            definitions[f"d{i}"] = self.schema(1)
        schema = self.schema()
        if isinstance(schema, bool):
            schema = {}
        if n:
            schema = {"$defs": definitions, **schema}
        return schema


def changed(text, rng):
    """A small change: a byte's worth of text left out, doubled or exchanged."""
    at = rng.randrange(len(text))
    other = rng.choice('09-."}]{[,:aAz \\' + text)
    return rng.choice([text[:at] + text[at + 1:], text[:at] + other + text[at:], text[:at] + other + text[at + 1:]])


class Program:
    def __init__(self):
        self.process = subprocess.Popen([os.environ["QUERN_GRAMMAR_RANDOM"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the program ended at {json.dumps(request)}"
        return json.loads(line)


def constant(name):
    raise ValueError(name)


def problem_of(validator, text):
    try:
        value = json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    error = next(validator.iter_errors(value), None)
    return error and error.message


def main():
    program, rng = Program(), random.Random(SEED)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    assert "date-time" in checker.checkers, "rfc3339-validator is not installed"
    compiled = refused = texts = unfinished = mutants = kept = 0
    reasons = {}
    while compiled < N:
        maker = Maker(rng)
        schema = maker.whole()
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
        space = rng.randrange(3)
        answer = program.ask({"schema": schema, "n": 4, "seed": rng.randrange(1 << 30), "space": space})
        if "error" in answer:
            refused += 1
            reasons[answer["error"].split(": ", 1)[-1][:60]] = reasons.get(answer["error"].split(": ", 1)[-1][:60], 0) + 1
            assert answer["status"] in ("unsupported", "invalid_argument", "invalid argument"), answer
            continue
        compiled += 1
        outputs = [t for t in answer["texts"] if t is not None]
        unfinished += len(answer["texts"]) - len(outputs)
        wrong = [(t, p) for t in outputs if (p := problem_of(validator, t))]
        assert not wrong, f"schema {json.dumps(schema)}\nlets through {wrong[0][0]}\nbut {wrong[0][1]}"
        texts += len(outputs)
        others = [changed(t, rng) for t in outputs for _ in range(6)]
        fits = program.ask({"schema": schema, "check": others + outputs, "space": space})["fits"]
        assert all(fits[len(others):]), "a text of the grammar is refused"
        for text, fit in zip(others, fits):
            mutants += 1
            if fit:
                kept += 1
                found = problem_of(validator, text)
                assert not found, f"schema {json.dumps(schema)}\nlets through {text}\nbut {found}"
    for reason, n in sorted(reasons.items(), key=lambda r: -r[1])[:8]:
        print(f"  refused {n}: {reason}")
    print(f"{compiled} schemas ({refused} refused): {texts} texts valid, {unfinished} not finished, {kept} of {mutants} changed texts let through, all valid")
    # The test would be empty if most were refused, or nothing changed were let through or stopped.
    assert refused < compiled / 2 and unfinished < texts / 20 and 0 < kept < mutants / 2
    # A control: the validator does notice.
    assert problem_of(jsonschema.Draft202012Validator({"type": "integer"}), '"x"') and problem_of(jsonschema.Draft202012Validator({}), "{")


main()
