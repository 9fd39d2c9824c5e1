"""The peers: each turns a job into a call without arguments that does it once, or None where it has no such op."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

LAST_LEVEL_CACHE = 32 << 20  # an output larger than this gets streaming stores in the shim


class Peer:
    def result(self, returned, out):
        """The array that holds the result of a call: what the call returned, or the output array it was given."""
        return out

    def exp(self, dtype, x, y):
        return None

    def multiply(self, a, b, y):
        return None

    def outer(self, lhs, rhs, y):
        return None

    def rows(self, matrix, rhs, out):
        return None

    def columns(self, matrix, lhs, out):
        return None

    def both(self, matrix, lhs, rhs, dlhs, drhs):
        """Two passes, unless the peer has something better."""
        rows, columns = self.rows(matrix, rhs, dlhs), self.columns(matrix, lhs, drhs)
        if rows is None or columns is None:
            return None

        def call():
            rows()
            columns()
        return call


class Mlxn(Peer):
    name = "mlxn"

    def __init__(self, threads):
        import mlxn_ctypes
        self.version = mlxn_ctypes.version
        self.device = mlxn_ctypes.Device("cpu", threads)

    def list_of(self, op, *arrays, dtype="f32"):
        """A recorded op; the call replays it."""
        encoder = self.device.encoder()
        encoder.op(op, *[self.device.wrap(array, dtype) for array in arrays])
        return encoder.run

    def exp(self, dtype, x, y):
        return self.list_of("exp", x, y, dtype=dtype)

    def multiply(self, a, b, y):
        return self.list_of("exp_backward", a, b, y)

    def outer(self, lhs, rhs, y):
        return self.list_of("outer_product", lhs, rhs, y)

    def rows(self, matrix, rhs, out):
        return self.list_of("outer_product_backward_lhs", matrix, rhs, out)

    def columns(self, matrix, lhs, out):
        return self.list_of("outer_product_backward_rhs", matrix, lhs, out)

    def both(self, matrix, lhs, rhs, dlhs, drhs):
        return self.list_of("outer_product_backward", matrix, lhs, rhs, dlhs, drhs)


class NumPy(Peer):
    name = "NumPy"

    def __init__(self, threads):
        self.version = np.__version__

    def exp(self, dtype, x, y):
        def call():
            with np.errstate(all="ignore"):
                np.exp(x, out=y)
        return None if dtype == "bf16" else call

    def multiply(self, a, b, y):
        return lambda: np.multiply(a, b, out=y)

    def outer(self, lhs, rhs, y):
        return lambda: np.multiply.outer(lhs, rhs, out=y)

    def rows(self, matrix, rhs, out):
        return lambda: np.matmul(matrix, rhs, out=out)

    def columns(self, matrix, lhs, out):
        return lambda: np.matmul(lhs, matrix, out=out)


class Torch(Peer):
    name = "PyTorch CPU"

    def __init__(self, threads):
        import torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.version = torch.__version__
        self.torch = torch

    def tensor(self, array, dtype="f32"):
        tensor = self.torch.from_numpy(array.view(np.int16) if dtype == "bf16" else array)
        return tensor.view(self.torch.bfloat16) if dtype == "bf16" else tensor

    def exp(self, dtype, x, y):
        x, y = self.tensor(x, dtype), self.tensor(y, dtype)
        return lambda: self.torch.exp(x, out=y)

    def multiply(self, a, b, y):
        a, b, y = self.tensor(a), self.tensor(b), self.tensor(y)
        return lambda: self.torch.mul(a, b, out=y)

    def outer(self, lhs, rhs, y):
        lhs, rhs, y = self.tensor(lhs), self.tensor(rhs), self.tensor(y)
        return lambda: self.torch.outer(lhs, rhs, out=y)

    def rows(self, matrix, rhs, out):
        matrix, rhs, out = self.tensor(matrix), self.tensor(rhs), self.tensor(out)
        return lambda: self.torch.mv(matrix, rhs, out=out)

    def columns(self, matrix, lhs, out):
        matrix, lhs, out = self.tensor(matrix).t(), self.tensor(lhs), self.tensor(out)
        return lambda: self.torch.mv(matrix, lhs, out=out)


class Mlx(Peer):
    """Its arrays are its own, and an op makes a new one each time (from its cache of memory)."""
    name = "MLX CPU"

    def __init__(self, threads):
        import mlx.core as mx
        mx.set_default_device(mx.cpu)
        self.version = mx.__version__
        self.mx = mx

    def array(self, array, dtype="f32"):
        copy = self.mx.array(array)
        return copy.view(self.mx.bfloat16) if dtype == "bf16" else copy

    def result(self, returned, out):
        return np.array(returned.view(self.mx.uint16) if out.dtype == np.uint16 else returned)

    def call(self, op, *arrays):
        def call():
            result = op(*arrays)
            self.mx.eval(result)
            return result
        return call

    def exp(self, dtype, x, y):
        return self.call(self.mx.exp, self.array(x, dtype))

    def multiply(self, a, b, y):
        return self.call(self.mx.multiply, self.array(a), self.array(b))

    def outer(self, lhs, rhs, y):
        return self.call(self.mx.outer, self.array(lhs), self.array(rhs))

    def rows(self, matrix, rhs, out):
        return self.call(self.mx.matmul, self.array(matrix), self.array(rhs))

    def columns(self, matrix, lhs, out):
        return self.call(self.mx.matmul, self.array(lhs), self.array(matrix))


class OpenBlas(Peer):
    """The system's OpenBLAS through its C interface; NumPy and PyTorch bring a BLAS of their own."""
    name = "OpenBLAS sgemv"
    ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112

    def __init__(self, threads):
        self.library = ctypes.CDLL("libopenblas.so.0")
        self.library.openblas_get_config.restype = ctypes.c_char_p
        self.library.openblas_set_num_threads(threads)
        self.version = self.library.openblas_get_config().decode()

    def sgemv(self, transpose, matrix, vector, out):
        size, one = ctypes.c_int, ctypes.c_int(1)
        rows, columns = matrix.shape
        function = self.library.cblas_sgemv
        call_arguments = (size(self.ROW_MAJOR), size(transpose), size(rows), size(columns), ctypes.c_float(1),
                          ctypes.c_void_p(matrix.ctypes.data), size(columns), ctypes.c_void_p(vector.ctypes.data), one,
                          ctypes.c_float(0), ctypes.c_void_p(out.ctypes.data), one)
        return lambda: function(*call_arguments)

    def rows(self, matrix, rhs, out):
        return self.sgemv(self.NO_TRANSPOSE, matrix, rhs, out)

    def columns(self, matrix, lhs, out):
        return self.sgemv(self.TRANSPOSE, matrix, lhs, out)


class Shim:
    """The exp functions of C libraries, through peers.c compiled on the spot."""

    def __init__(self):
        compiler = os.environ.get("CC") or shutil.which("cc")
        if compiler is None:
            raise OSError("no C compiler")
        source = pathlib.Path(__file__).resolve().parent / "peers.c"
        with tempfile.TemporaryDirectory() as folder:
            for extra in ["-DWITH_SLEEF", "-lsleef"], []:
                command = [compiler, "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", *extra[:1], str(source),
                           *extra[1:], "-lmvec", "-lm", "-o", f"{folder}/peers.so"]
                outcome = subprocess.run(command, capture_output=True, text=True)
                if outcome.returncode == 0:
                    self.library = ctypes.CDLL(f"{folder}/peers.so")
                    return
        raise OSError(outcome.stderr.strip().splitlines()[0])


class VectorExp(Peer):
    def __init__(self, shim, name, function, threads):
        self.name, self.threads = name, threads
        self.function = getattr(shim.library, function)
        self.function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_bool]
        self.function.restype = None
        self.version = "through bench/peers.c"

    def exp(self, dtype, x, y):
        if dtype != "f32":
            return None
        data_x, data_y, streaming = x.ctypes.data, y.ctypes.data, y.nbytes > LAST_LEVEL_CACHE
        threads = self.threads if y.nbytes > 1 << 18 else 1
        return lambda: self.function(data_x, data_y, x.size, threads, streaming)


def find(threads, only):
    """The peers that are here, mlxn first, and why each other one is not; of the peers those named in `only`, or all."""
    peers, missing = [Mlxn(threads)], {}

    def wanted(name):
        return not only or any(word.lower() in name.lower() for word in only)

    for kind in NumPy, Torch, Mlx, OpenBlas:
        if not wanted(kind.name):
            continue
        try:
            peers.append(kind(threads))
        except (ImportError, OSError) as error:
            missing[kind.name] = str(error).splitlines()[0]
    functions = {"SLEEF u10": "peers_exp_sleef", "libmvec": "peers_exp_mvec", "glibc expf": "peers_exp_libm"}
    functions = {name: function for name, function in functions.items() if wanted(name)}
    try:
        shim = Shim() if functions else None
    except OSError as error:
        shim = None
        missing[", ".join(functions)] = str(error)
    if shim is not None:
        for name, function in functions.items():
            try:
                peers.append(VectorExp(shim, name, function, threads))
            except AttributeError:
                missing[name] = "no SLEEF headers here"
    return peers, missing
