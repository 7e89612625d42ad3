"""Validates OpenHarness messages, one JSON array [kind, message] a line, with Python's jsonschema.

Usage: python3 openharness_schema.py SCHEMA < messages. Prints how many were valid; the first that is not ends it.
"""

import json
import sys

from jsonschema import Draft202012Validator

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)

validators = {
    # Never the root: it takes a message for none that is both.
    kind: Draft202012Validator({"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": f"#/$defs/{kind}"})
    for kind in ("requestMessage", "responseMessage")
}

count = 0
for line in sys.stdin:
    kind, message = json.loads(line)
    errors = [error.message for error in validators[kind].iter_errors(message)]
    if errors:
        sys.exit(f"{errors} in {line}")
    count += 1
print(count)
