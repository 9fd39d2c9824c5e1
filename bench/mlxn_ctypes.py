"""A small Python binding of mlxn: NumPy arrays in, the library's ops on them, no copies on the CPU.

    import numpy as np
    from mlxn_ctypes import Device

    device = Device("cpu")
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    y = np.empty_like(x)
    with device.encoder() as encoder:
        encoder.op("exp", device.wrap(x), device.wrap(y))
        encoder.run()

On a device without host memory, such as "cuda:0", use create() and write() in place of wrap(), and read().

The library is looked for in $MLXN_LIBRARY, then in this repository's build folder, then where the system looks.
"""
import ctypes
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p


class MlxnError(Exception):
    """A call failed; the text is the library's own."""


class _DeviceOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("threads", c_size_t), ("allocator", c_void_p), ("cache_folder", c_char_p)]


def _load():
    built = pathlib.Path(__file__).resolve().parent.parent / "build" / "libmlxn.so"
    path = os.environ.get("MLXN_LIBRARY") or (str(built) if built.exists() else "libmlxn.so.0")
    library = ctypes.CDLL(path)
    library.mlxn_last_error.restype = c_char_p
    library.mlxn_version.restype = c_char_p
    library.mlxn_encoder_message.restype = c_char_p
    prototypes = {
        "mlxn_device_open": [c_char_p, POINTER(_DeviceOptions), POINTER(c_void_p)],
        "mlxn_dtype_from_name": [c_char_p, POINTER(c_int)],
        "mlxn_buffer_wrap": [c_void_p, c_int, c_size_t, POINTER(c_int64), c_void_p, c_void_p, POINTER(c_void_p)],
        "mlxn_buffer_create": [c_void_p, c_int, c_size_t, POINTER(c_int64), POINTER(c_void_p)],
        "mlxn_buffer_view": [c_void_p, c_int64, c_size_t, POINTER(c_int64), POINTER(c_void_p)],
        "mlxn_buffer_read": [c_void_p, c_size_t, c_size_t, c_void_p],
        "mlxn_buffer_write": [c_void_p, c_size_t, c_size_t, c_void_p],
        "mlxn_encoder_create": [c_void_p, c_void_p, POINTER(c_void_p)],
        "mlxn_encode": [c_void_p, c_char_p, POINTER(c_void_p), c_size_t, c_int],
        "mlxn_encoder_commit": [c_void_p],
        "mlxn_encoder_wait": [c_void_p],
        "mlxn_encoder_commit_and_wait": [c_void_p],
        "mlxn_encoder_reset": [c_void_p],
    }
    for name, arguments in prototypes.items():
        getattr(library, name).argtypes = arguments
    for handle in "device", "buffer", "encoder":
        destroy = getattr(library, f"mlxn_{handle}_destroy")
        destroy.argtypes, destroy.restype = [c_void_p], None
    return library


_library = _load()
version = _library.mlxn_version().decode()


def _dtype(name):
    kind = c_int()
    _check(_library.mlxn_dtype_from_name(name.encode(), byref(kind)))
    return kind


def _check(status):
    if status != 0:
        raise MlxnError(_library.mlxn_last_error().decode())


class Device:
    """A device, such as "cpu"; None opens the best one. threads = 0 takes what the machine allows."""

    def __init__(self, name=None, threads=0):
        options = _DeviceOptions(ctypes.sizeof(_DeviceOptions), threads, None, None)
        self.handle = c_void_p()
        _check(_library.mlxn_device_open(name.encode() if name else None, byref(options), byref(self.handle)))

    def wrap(self, array, dtype=None):
        """A buffer on a contiguous NumPy array's memory. dtype "bf16" tells what an array of uint16 holds."""
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise ValueError("the array must be contiguous and writeable")
        names = {"float32": "f32", "float16": "f16", "float64": "f64"}
        handle = c_void_p()
        _check(_library.mlxn_buffer_wrap(self.handle, _dtype(dtype or names[array.dtype.name]), array.ndim,
                                         (c_int64 * array.ndim)(*array.shape), array.ctypes.data, None, byref(handle)))
        return Buffer(handle, array)

    def create(self, dtype, shape):
        """A buffer of zeros in the device's memory."""
        handle = c_void_p()
        _check(_library.mlxn_buffer_create(self.handle, _dtype(dtype), len(shape), (c_int64 * len(shape))(*shape),
                                           byref(handle)))
        return Buffer(handle)

    def encoder(self):
        return Encoder(self)

    def __del__(self):
        _library.mlxn_device_destroy(self.handle)


class Buffer:
    def __init__(self, handle, array=None):
        self.handle = handle
        self.array = array  # keeps wrapped memory alive as long as the buffer

    def view(self, offset, shape):
        """Elements from `offset` on, sharing the memory."""
        handle = c_void_p()
        _check(_library.mlxn_buffer_view(self.handle, offset, len(shape), (c_int64 * len(shape))(*shape), byref(handle)))
        return Buffer(handle, self.array)

    def write(self, array, at=0):
        """Copies a contiguous NumPy array to byte `at` of the buffer."""
        _check(_library.mlxn_buffer_write(self.handle, at, array.nbytes, array.ctypes.data))

    def read(self, array, at=0):
        """Copies from byte `at` of the buffer into a contiguous NumPy array, after the work on the buffer."""
        _check(_library.mlxn_buffer_read(self.handle, at, array.nbytes, array.ctypes.data))

    def __del__(self):
        _library.mlxn_buffer_destroy(self.handle)


class Encoder:
    """Records ops and runs them; run() again replays the list on the arrays' present contents."""

    def __init__(self, device):
        self.handle = c_void_p()
        self.buffers = []  # work that can be replayed needs its arrays
        _check(_library.mlxn_encoder_create(device.handle, None, byref(self.handle)))

    def op(self, name, *buffers, accumulate=False):
        """Records an op: buffers in the order of its C function."""
        handles = (c_void_p * len(buffers))(*[buffer.handle for buffer in buffers])
        _check(_library.mlxn_encode(self.handle, name.encode(), handles, len(buffers), int(accumulate)))
        self.buffers.extend(buffers)

    def commit(self):
        _check(_library.mlxn_encoder_commit(self.handle))

    def wait(self):
        _check(_library.mlxn_encoder_wait(self.handle))

    def run(self):
        _check(_library.mlxn_encoder_commit_and_wait(self.handle))

    def reset(self):
        _check(_library.mlxn_encoder_reset(self.handle))
        self.buffers.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        _library.mlxn_encoder_destroy(self.handle)
        self.handle = c_void_p()

    def __del__(self):
        self.close()
