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
        self.assertEqual(int(self.variables["PODS"]), spec["completions"])
        self.assertEqual(spec["parallelism"], spec["completions"])

    def test_prometheus_and_the_job_reach_each_rank(self):
        job = self.job["metadata"]["name"]
        policy = manifests("network-policy.yaml")["NetworkPolicy"]["spec"]
        selector = {"podSelector": {"matchLabels": {"job-name": job}}}
        self.assertEqual(policy["podSelector"], selector["podSelector"])
        own, monitoring = policy["ingress"]
        self.assertEqual(own, {"from": [selector]})
        first = int(self.variables["KOLO_METRICS"].rpartition(":")[2])
        last = first + int(self.variables["RANKS_PER_POD"]) - 1
        self.assertEqual([(port["port"], port["endPort"]) for port in monitoring["ports"]], [(first, last)])
        self.assertEqual([port["containerPort"] for port in self.container["ports"]], list(range(first, last + 1)))

    def test_the_job_ends_and_goes(self):
        for limit in ("activeDeadlineSeconds", "ttlSecondsAfterFinished"):
            self.assertGreater(self.job["spec"][limit], 0)
        self.assertEqual(self.container["resources"]["limits"], self.container["resources"]["requests"])

    def test_the_container_has_no_root_rights_and_reads_the_key(self):
        security = self.pod["securityContext"]
        self.assertTrue(security["runAsNonRoot"])
        dockerfile = (FOLDER.parent.parent / "Dockerfile").read_text(encoding="utf-8")
        self.assertIn(f"\nUSER {security['runAsUser']}\n", dockerfile)
        self.assertEqual(self.container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        volume, = self.pod["volumes"]
        mount, = self.container["volumeMounts"]
        self.assertEqual(mount["name"], volume["name"])
        self.assertEqual(self.variables["KOLO_KEY_FILE"], f"{mount['mountPath']}/key")
        # Root's file, read by the group of fsGroup.
        self.assertEqual(volume["secret"]["defaultMode"], 0o440)
        self.assertEqual(security["fsGroup"], security["runAsGroup"])
        self.assertNotIn("KOLO_KEY", self.variables)
        self.assertIn(f"secret generic {volume['secret']['secretName']} --from-literal=key=",
                      (FOLDER / "README.md").read_text(encoding="utf-8"))

    def start(self, index, **variables):
        """The container of a pod as the kubelet starts it, without what an image and a cluster give."""
        kept = {name: value for name, value in os.environ.items() if name in ("HOME", "PATH", "LD_LIBRARY_PATH")}
        # Fewer measurements than the manifest asks for: how fast the ranks are is not looked at.
        command = [*self.container["command"], *self.container["args"], "--iterations", "3"]
        self.assertEqual(command.count("kolo"), 1)
        command[command.index("kolo")] = KOLO
        pod = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**kept, **self.variables, "JOB_COMPLETION_INDEX": str(index), **variables})
        self.addCleanup(pod.kill)
        return pod

    def test_containers_find_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            key = os.path.join(folder, "key")
            with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write("a key of this test")
            # Pods of this test share a network, so only those of one pod may serve metrics.
            local = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20_000 + os.getpid() % 10_000), "KOLO_KEY_FILE": key,
                     "KOLO_METRICS": ""}
            pods = [self.start(index, **local) for index in range(self.job["spec"]["completions"])]
            outputs = [pod.communicate(timeout=TIMEOUT_S)[0] for pod in pods]
        self.assertEqual([pod.returncode for pod in pods], [0] * len(pods), "\n".join(outputs))
        ranks = len(pods) * int(self.variables["RANKS_PER_POD"])
        self.assertIn(f"{ranks} ranks", outputs[0])
        self.assertIn("All results are right", outputs[0])

    def test_a_name_that_never_resolves_ends_the_pod(self):
        pod = self.start(1, MASTER_ADDR="kolo-0.invalid", NAME_TIMEOUT="1")
        output = pod.communicate(timeout=TIMEOUT_S)[0]
        self.assertEqual(pod.returncode, 1, output)
        self.assertIn("kolo-0.invalid does not resolve after 1 s", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
