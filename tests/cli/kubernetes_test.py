#!/usr/bin/env python3
"""The Kubernetes example without Kubernetes: its manifests agree, and the program of a container
finds its rank and its peers in the container's environment."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    print("skipped: there is no python3-yaml here")
    sys.exit(77)

FOLDER, KOLO = Path(sys.argv[1]), sys.argv[2]
TIMEOUT_S = 150


def manifests(name):
    with open(FOLDER / name, encoding="utf-8") as file:
        return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(file)}


class Kubernetes(unittest.TestCase):
    def setUp(self):
        found = manifests("job.yaml")
        self.assertEqual(set(found), {"Service", "Job"})
        self.service, self.job = found["Service"], found["Job"]
        self.pod = self.job["spec"]["template"]["spec"]
        self.container, = self.pod["containers"]
        self.variables = {variable["name"]: variable["value"] for variable in self.container["env"]}

    def test_names_and_numbers_agree(self):
        job, service = self.job["metadata"]["name"], self.service["metadata"]["name"]
        selector = {"job-name": job}
        self.assertEqual(self.service["spec"]["selector"], selector)
        self.assertEqual(self.service["spec"]["clusterIP"], "None")
        self.assertEqual(self.pod["subdomain"], service)
        self.assertEqual(self.variables["MASTER_ADDR"], f"{job}-0.{service}")
        spec = self.job["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(int(self.variables["WORLD_SIZE"]), spec["completions"])
        self.assertEqual(spec["parallelism"], spec["completions"])
        policy = manifests("network-policy.yaml")["NetworkPolicy"]["spec"]
        self.assertEqual(policy["podSelector"]["matchLabels"], selector)
        self.assertEqual(policy["ingress"], [{"from": [{"podSelector": {"matchLabels": selector}}]}])

    def test_the_key_is_a_file_of_the_secret(self):
        volume, = self.pod["volumes"]
        mount, = self.container["volumeMounts"]
        self.assertEqual(mount["name"], volume["name"])
        self.assertEqual(self.variables["KOLO_KEY_FILE"], f"{mount['mountPath']}/key")
        self.assertEqual(volume["secret"]["defaultMode"], 0o400)
        self.assertNotIn("KOLO_KEY", self.variables)
        self.assertIn(f"secret generic {volume['secret']['secretName']} --from-literal=key=",
                      (FOLDER / "README.md").read_text(encoding="utf-8"))

    def test_containers_find_each_other(self):
        kept = {name: value for name, value in os.environ.items() if name in ("HOME", "PATH", "LD_LIBRARY_PATH")}
        with tempfile.TemporaryDirectory() as folder:
            key = os.path.join(folder, "key")
            with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write("a key of this test")
            # Parts of a cluster: names of pods, and a mounted secret.
            local = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20_000 + os.getpid() % 10_000), "KOLO_KEY_FILE": key}
            command = [*self.container["command"], *self.container["args"]]
            self.assertEqual(command.count("kolo"), 1)
            command[command.index("kolo")] = KOLO
            pods = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     env={**kept, **self.variables, **local, "JOB_COMPLETION_INDEX": str(index)})
                    for index in range(self.job["spec"]["completions"])]
            for pod in pods:
                self.addCleanup(pod.kill)
            outputs = [pod.communicate(timeout=TIMEOUT_S)[0] for pod in pods]
        self.assertEqual([pod.returncode for pod in pods], [0] * len(pods), "\n".join(outputs))
        self.assertIn(f"{len(pods)} ranks", outputs[0])
        self.assertIn("All results are right", outputs[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
