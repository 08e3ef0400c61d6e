"""All scenarios of the library are what docs/reference/scenario.schema.json describes, and wrong ones are not.

    python3 schema_test.py SOURCE_FOLDER
    exit 0: as expected; 1: something is not; 77: this Python has no jsonschema or no yaml
"""

import json
import pathlib
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WRONG = {
    "an unknown key": "schedule: {name: gpipe, stagse: 4}",
    "a number without its unit": "cluster: {preset: uniform, latency: 5}",
    "a unit of another kind": "cluster: {preset: uniform, latency: 5 GB}",
    "a word that the key does not have": "training: {optimizer: adamw}",
    "a count below its range": "schedule: {stages: 0}",
    "a key of another form": "cluster: {preset: uniform, intra_latency: 1 us}",
    "a part that is a list": "training: [adam]",
}

root = pathlib.Path(sys.argv[1])
validator = jsonschema.Draft202012Validator(json.loads((root / "docs/reference/scenario.schema.json").read_text()))
validator.check_schema(validator.schema)
failures = []
files = sorted((root / "scenarios/library").rglob("*.yaml"))
assert files, "no scenario in scenarios/library"
for file in files:
    document = yaml.safe_load(file.read_text())
    # The files in models/ hold the part alone.
    scenario = {"model": document} if file.parent.name == "models" else document
    for error in validator.iter_errors(scenario):
        failures.append(f"{file}: {error.json_path}: {error.message}")
for name, text in WRONG.items():
    if validator.is_valid(yaml.safe_load(text)):
        failures.append(f"the schema accepts {name}: {text}")
print("\n".join(failures) or f"{len(files)} scenarios are valid, {len(WRONG)} wrong ones are not")
sys.exit(1 if failures else 0)
