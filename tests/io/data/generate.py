# Writes the golden files of this folder, with NumPy 2.4, ml_dtypes 0.6 and safetensors:
#     pip install numpy ml_dtypes safetensors && python3 generate.py
# Element i of a file, in row-major order, is i - 2 (unsigned: i + 1), so that the tests know what to expect.
import os

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))


def values(dtype, shape):
    count = int(np.prod(shape))
    first = 1 if np.dtype(dtype).kind == "u" else -2
    return np.arange(first, first + count).astype(dtype).reshape(shape)


for name, dtype in [("f4", "<f4"), ("f2", "<f2"), ("f8", "<f8"), ("u1", "|u1"), ("u2", "<u2"), ("u4", "<u4"),
                    ("i4", "<i4"), ("i8", "<i8"), ("bf16", ml_dtypes.bfloat16)]:
    np.save(f"{name}.npy", values(dtype, (2, 3)))
for name, dtype in [("big_f4", ">f4"), ("big_f2", ">f2"), ("big_f8", ">f8"), ("big_u2", ">u2"), ("big_u4", ">u4"),
                    ("big_i4", ">i4"), ("big_i8", ">i8")]:
    np.save(f"{name}.npy", values(dtype, (2, 3)))
np.save("rank0.npy", values("<f4", ()))
np.save("rank1.npy", values("<f4", (5,)))
np.save("rank8.npy", values("<f4", (1, 2, 1, 2, 1, 2, 1, 3)))
np.save("empty.npy", values("<f4", (0, 4)))
np.save("fortran.npy", np.asfortranarray(values("<f4", (3, 4))))
np.save("fortran3_big.npy", np.asfortranarray(values(">f8", (2, 3, 4))))
for version in [(2, 0), (3, 0)]:
    with open(f"version{version[0]}.npy", "wb") as out:
        np.lib.format.write_array(out, values("<f4", (2, 3)), version=version)
save_file({"weight": values("<f4", (2, 3)), "half": values("<f2", (5,)), "brain": values(ml_dtypes.bfloat16, (3,)),
           "bytes": values("|u1", (3,)), "scalar": values("<i8", ()), "nothing": values("<f4", (0, 4)),
           "flags": np.array([True, False, True])}, "mixed.safetensors", metadata={"format": "np", "note": "grüße"})
