"""Reads a JSON list of texts and prints what Python's readers see in each.

The argument is yaml (PyYAML, YAML 1.1), toml (tomllib, TOML 1.0) or ini
(configparser without interpolation, one pair of quotes stripped). A text that
is refused becomes null.
"""
import configparser
import json
import sys


def read_yaml(text):
    import yaml
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read_toml(text):
    import tomllib
    return tomllib.loads(text)


def read_ini(text):
    parser = configparser.RawConfigParser(
        delimiters=("=",), comment_prefixes=(";", "#"), inline_comment_prefixes=None,
        strict=False, empty_lines_in_values=False, default_section="\x01")
    parser.optionxform = str
    parser.read_string("[\x02]\n" + text)
    leaves = {}
    for section in parser.sections():
        for key, value in parser.items(section):
            if len(value) > 1 and value[0] == value[-1] == '"':
                value = value[1:-1]
            leaves[key if section == "\x02" else section + "." + key] = value
    return leaves


def main():
    read = {"yaml": read_yaml, "toml": read_toml, "ini": read_ini}[sys.argv[1]]
    seen = []
    for text in json.load(sys.stdin):
        try:
            seen.append(read(text))
        except Exception:
            seen.append(None)
    json.dump(seen, sys.stdout, default=str)


main()
