"""Runs a training program and reads the results that it writes."""
import json
import os
import subprocess
import tempfile

TIMEOUT_S = 100


def results_of(command_of, expect=0, **settings):
    """`command_of` makes the command from the path for --json. Returns the contents of that file, or the output if
    another exit code than 0 is expected."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "results.json")
        done = subprocess.run(command_of(file), text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, **settings})
        if done.returncode != expect:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}")
        if expect != 0:
            return done.stdout
        with open(file, encoding="utf-8") as results:
            return json.load(results)
