#!/usr/bin/env python3
"""Expectations for the Jinja tests, from Python's jinja2 set up as Hugging Face transformers sets it up.

  tools/jinja_compare.py           writes what jinja2 gives into tests/token/jinja_cases.json and jinja_chats.json
  tools/jinja_compare.py --check   exits with 1, and says where, when the files differ from what jinja2 gives
  tools/jinja_compare.py --templates DIR --output FILE
                                   the same conversations with the *.jinja of any folder; test_jinja compares itself
                                   with FILE when the environment names it as QUERN_JINJA_CHATS

jinja_cases.json holds small templates: add {"template": ..., "context": a name in "contexts", or none} and run this.
jinja_chats.json holds conversations; each is rendered with each tests/token/jinja_templates/*.jinja. Needs the PyPI package jinja2 >= 3.1.6.
"""
import argparse
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "token"
NOW = datetime.datetime(2024, 7, 6, 15, 4, 5)  # the test programs' clock


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: a scope without effect on the text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


class SafeNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            SafeNamespace._check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        SafeNamespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore-prefixed attribute on a namespace")


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    env.globals["dict"] = lambda *args, **kwargs: dict(*args, **kwargs)
    env.globals["namespace"] = SafeNamespace
    return env


def render(env, source, context):
    """{"expect": text}, or {"error": message}; the message is empty where only Python's own wording could be compared."""
    try:
        return {"expect": env.from_string(source).render(**context)}
    except jinja2.exceptions.UndefinedError as error:
        return {"error": "" if "Namespace" in str(error) else str(error)}
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error) if type(error) is jinja2.exceptions.TemplateError else ""}
    except (TypeError, ValueError, ArithmeticError, LookupError, AssertionError, SyntaxError, RecursionError):
        return {"error": ""}


def fill_cases(env, data):
    for case in data["cases"]:
        case.pop("expect", None)
        case.pop("error", None)
        case.update(render(env, case["template"], data["contexts"].get(case.get("context"), {})))
    return data, {}


def fill_chats(env, data, folder=DATA / "jinja_templates"):
    templates = {path.stem: path.read_text() for path in sorted(folder.glob("*.jinja"))}
    for chat in data["chats"]:
        context = {**data["tokens"], **chat["context"]}
        chat["results"] = {name: render(env, source, context) for name, source in templates.items()}
    return data, templates


def text_of(data):
    key = next(name for name, value in data.items() if isinstance(value, list))
    head = {name: value for name, value in data.items() if name != key}
    lines = ["{"]
    lines += [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}," for name, value in head.items()]
    lines.append(f"{json.dumps(key)}: [")
    lines.append(",\n".join(json.dumps(item, ensure_ascii=False) for item in data[key]))
    lines.append("]}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--templates", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    env = environment()
    if options.templates:
        data, templates = fill_chats(env, json.loads((DATA / "jinja_chats.json").read_text()), options.templates)
        options.output.write_text(text_of({"templates": templates, **data}))
        return 0
    drift = 0
    for name, fill in (("jinja_cases.json", fill_cases), ("jinja_chats.json", fill_chats)):
        path = DATA / name
        old = path.read_text()
        new = text_of(fill(env, json.loads(old))[0])
        if not options.check:
            path.write_text(new)
        elif old != new:
            for number, (a, b) in enumerate(zip(old.splitlines(), new.splitlines()), 1):
                if a != b:
                    print(f"{path.relative_to(ROOT)}:{number}: differs from jinja2 {jinja2.__version__}")
                    drift += 1
            drift = max(drift, 1)
        print(f"{name}: {'checked' if options.check else 'written'}, jinja2 {jinja2.__version__}")
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
