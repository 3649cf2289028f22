#!/usr/bin/env python3
"""checkpoint_format_test.py KOLO TRAIN_SURVIVE: the files of a checkpoint, read and written by the definition of safetensors
(8 bytes with the header's length, little-endian; a header in JSON; the data), without any package."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

KOLO, SURVIVE = sys.argv[1:3]
BYTES = {"F32": 4, "I64": 8, "U8": 1}


def survive(ranks, folder, steps):
    done = subprocess.run([KOLO, "run", "-n", str(ranks), "--", SURVIVE, folder, str(steps)], text=True, timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout, float(re.search(r"with loss (\S+)", done.stdout)[1])


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


class CheckpointFormat(unittest.TestCase):
    def read(self, path):
        """Name: (type, sizes, bytes) of all tensors of a file."""
        with open(path, "rb") as file:
            data = file.read()
        length, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        self.assertEqual(header.pop("__metadata__"), {"format": "pt", "step": "100"})
        tensors, end = {}, 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, after = entry["data_offsets"]
            self.assertEqual(begin, end, "neither holes nor overlaps")
            self.assertEqual(after - begin, BYTES[entry["dtype"]] * product(entry["shape"]))
            self.assertEqual((8 + length + begin) % BYTES[entry["dtype"]], 0)
            tensors[name] = entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + after]
            end = after
        self.assertEqual(8 + length + end, len(data))
        return tensors, data

    def write(self, folder, tensors):
        os.makedirs(folder)
        header, data = {"__metadata__": {"step": "100"}}, b""
        for name, (dtype, shape, values) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        text = json.dumps(header).encode()
        data = struct.pack("<Q", len(text)) + text + data
        with open(os.path.join(folder, "mine.safetensors"), "wb") as file:
            file.write(data)
        index = json.dumps({
            "metadata": {"kolo_checkpoint": 2, "step": 100},
            "files": {"mine.safetensors": {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}},
            "tensors": {name: {"dtype": dtype, "shape": shape, "parts": [{"file": "mine.safetensors"}]}
                        for name, (dtype, shape, _) in tensors.items()}})[1:]
        with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
            file.write(f'{{"crc32":"{zlib.crc32(index.encode()):08x}",\n{index}')

    def test_files_go_to_python_and_back(self):
        with tempfile.TemporaryDirectory() as place:
            _, loss = survive(2, f"{place}/run", 100)
            folder = f"{place}/run/step-100"
            with open(f"{folder}/index.json", encoding="utf-8") as file:
                text = file.read()
            index = json.loads(text)
            self.assertEqual(index["crc32"], f"{zlib.crc32(text.split(chr(10), 1)[1].encode()):08x}")
            self.assertEqual(sorted(os.listdir(folder)), sorted([*index["files"], "index.json"]))
            tensors, weights = {}, {}
            for name, entry in index["files"].items():
                found, data = self.read(f"{folder}/{name}")
                self.assertEqual((len(data), f"{zlib.crc32(data):08x}"), (entry["bytes"], entry["crc32"]))
                tensors.update(found)
                weights.update(dict.fromkeys(found, name))
            self.assertEqual(index["weight_map"], weights)
            self.assertEqual(index["metadata"]["total_size"], sum(len(values) for _, _, values in tensors.values()))
            for name, entry in index["tensors"].items():
                self.assertEqual((entry["dtype"], entry["shape"]), tensors[name][:2])
            shapes = {"0.weight": [128, 16], "0.bias": [128], "2.weight": [1, 128], "2.bias": [1]}
            for name, shape in shapes.items():
                self.assertEqual(tensors[name][1], shape)
                self.assertEqual(tensors[f"optimizer/{name}/momentum_buffer"][1], shape)

            self.write(f"{place}/same/step-100", tensors)
            said, again = survive(3, f"{place}/same", 100)
            self.assertIn("3 ranks go on from step 100", said)
            self.assertAlmostEqual(again, loss, places=6)
            zero = {name: (dtype, shape, bytes(len(values)) if name in shapes else values)
                    for name, (dtype, shape, values) in tensors.items()}
            self.write(f"{place}/zero/step-100", zero)
            _, loss = survive(1, f"{place}/zero", 100)
            self.assertAlmostEqual(loss, 6.917, delta=0.1)  # the variance of a sum of 16 sines of normal numbers


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
