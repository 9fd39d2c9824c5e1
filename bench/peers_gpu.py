#!/usr/bin/env python3
"""Times mlxn beside PyTorch, CuPy and the driver on one GPU, in one process, and prints Markdown tables.

    python3 bench/peers_gpu.py                       # about two minutes
    python3 bench/peers_gpu.py --json gpu.json
    python3 bench/peers_gpu.py --rehearse            # tiny arrays, any device: does everything run?

A peer that is missing or fails is named, with the reason, and the others go on. README.md says how it measures.
"""
import argparse
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--device", default="cuda:0", help="mlxn's name of the device; the peers take CUDA device 0")
parser.add_argument("--program", default=str(here.parent / "build" / "mlxn"),
                    help="the program mlxn; the library beside it is taken, too, if MLXN_LIBRARY names no other")
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--seconds", type=float, default=140, help="start nothing new that is optional after this long")
parser.add_argument("--json", metavar="FILE")
parser.add_argument("--rehearse", action="store_true")
options = parser.parse_args()
if shutil.which(options.program) is None:
    parser.error(f"--program: {options.program} is not a program")
beside = pathlib.Path(shutil.which(options.program)).resolve().parent / "libmlxn.so"
if beside.exists():
    os.environ.setdefault("MLXN_LIBRARY", str(beside))

started = time.monotonic()
SETS = 2  # inputs take turns
ELEMENTS = 1 << (16 if options.rehearse else 28)
LONGEST = ELEMENTS // 4  # of a vector
SHAPES = [(1 << 8, 1 << 8), (1 << 12, 16), (16, 1 << 12), (1 << 14, 4), (4, 1 << 14)] if options.rehearse else \
    [(1 << 14, 1 << 14), (1 << 20, 256), (256, 1 << 20), (1 << 26, 4), (4, 1 << 26)]
SAMPLE = 0.001 if options.rehearse else 0.02  # seconds of work in a timing, at least
report = {"failures": [], "limits": {}, "speeds": [], "overheads": {}, "memory": []}


def left_out(what, error):
    """A peer, or one job of it, that does not work here."""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    report["failures"].append({"what": what, "reason": text})
    print(f"- left out: {what}: {text}", flush=True)


def attempt(what, make):
    """make(), or None with a line that says why not."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - whatever a peer throws is a line in the report
        left_out(what, error)
        return None


try:
    import numpy as np
except ImportError:
    sys.exit("peers_gpu.py needs numpy")
torch = attempt("PyTorch", lambda: __import__("torch"))
cupy = attempt("CuPy", lambda: __import__("cupy"))
mlxn_ctypes = attempt("mlxn", lambda: __import__("mlxn_ctypes"))
if torch is not None and not torch.cuda.is_available() and not options.rehearse:
    left_out("PyTorch", "it sees no GPU")
    torch = None
PLACE = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
pattern = np.random.default_rng(1).uniform(0.5, 2, 1 << (14 if options.rehearse else 24)).astype(np.float32)


def synchronize():
    if torch is not None and PLACE == "cuda":
        torch.cuda.synchronize()
    elif cupy is not None:
        cupy.cuda.runtime.deviceSynchronize()


# ---- timing: a call does its work `count` times and returns when it is done ----


def repeated(step):
    """A call of the peer's own that enqueues one of its jobs: step(i) takes the i-th set of inputs."""
    def call(count):
        for i in range(count):
            step(i % SETS)
        synchronize()
    return call


class Replay:
    """The jobs recorded in one list, which is replayed."""

    def __init__(self, record, most=1 << 12):
        self.record, self.most, self.count, self.encoder = record, most, 0, None

    def __call__(self, count):
        if count != self.count:
            self.encoder = mlxn.encoder()
            for i in range(count):
                self.record(self.encoder, i % SETS)
            self.count = count
            self.encoder.run()
            self.encoder.run()  # the second commit of a list prepares the later ones
        self.encoder.run()


def timed(call, count):
    start = time.perf_counter()
    call(count)
    return (time.perf_counter() - start) / count


def measure(calls):
    """The median seconds of one job for each peer. They take turns, so that a disturbance meets all of them."""
    counts, times = {}, {}
    for name, call in list(calls.items()):
        def prepare(call=call):
            call(4)
            count = max(2, min(2000, int(SAMPLE / max(timed(call, 4), 1e-9)) + 1))
            call(count)
            return count
        count = attempt(name, prepare)
        if count is not None:
            counts[name], times[name] = count, []
    for _ in range(options.rounds):
        for name in list(counts):
            seconds = attempt(name, lambda: timed(calls[name], counts[name]))
            if seconds is None:
                counts.pop(name), times.pop(name)
            else:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items() if values}


# ---- arrays ----


def torch_array(count, dtype):
    whole = torch.from_numpy(pattern).to(PLACE, dtype)
    return whole.repeat(-(-count // whole.numel()))[:count].contiguous()


def mlxn_array(count, dtype):
    buffer = mlxn.create(dtype, (count,))
    if dtype == "f32":
        piece = pattern
    elif dtype == "f16":
        piece = pattern.astype(np.float16)
    else:
        piece = (pattern.view(np.uint32) >> 16).astype(np.uint16)
    for at in range(0, count, piece.size):
        buffer.write(piece[:count - at], at * piece.itemsize)
    return buffer


# ---- the jobs ----

mlxn = attempt("mlxn", lambda: mlxn_ctypes.Device(options.device)) if mlxn_ctypes else None

READ_KERNEL = r"""
extern "C" __global__ void read4(const float4 *a, float4 *sink) {
    const unsigned long long first = blockIdx.x * 1024ull + threadIdx.x;
    float4 v[4];
    #pragma unroll
    for (int k = 0; k < 4; k++) v[k] = a[first + 256 * k];
    float4 s = v[0];
    #pragma unroll
    for (int k = 1; k < 4; k++) { s.x += v[k].x; s.y += v[k].y; s.z += v[k].z; s.w += v[k].w; }
    if (s.x == -1 && s.y == -2 && s.z == -3 && s.w == -4) *sink = s;
}
extern "C" __global__ void triad(const float4 *a, const float4 *b, float4 *c) {
    const unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    const float4 u = a[i], v = b[i];
    __stcs(c + i, make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w));
}
"""


def add_rows(job, size, limit, calls):
    """Measures a job and prints its row."""
    times = measure(calls)
    cells, own = [], times.get("mlxn")
    for name, seconds in times.items():
        rate = size / seconds / 1e9
        report["speeds"].append({"job": job, "peer": name, "seconds": seconds, "gb_per_s": rate, "limit": limit})
        of_limit = report["limits"].get(limit)
        of_limit = f", {rate / of_limit:.3f} of {limit}" if of_limit else ""
        compared = f", mlxn {seconds / own:.2f}×" if own and name != "mlxn" else ""
        cells.append(f"{name} {rate:.0f}{of_limit if name == 'mlxn' else ''}{compared}")
    print(f"| {job} | " + " | ".join(cells) + " |", flush=True)
    return times


def limits(x, y):
    """What plain copies, fills and reads reach, the best of several ways each."""
    ways = {}
    size = 4 * ELEMENTS
    if torch is not None:
        ways["copy", "torch copy_"] = 2 * size, repeated(lambda i: y.copy_(x[i]))
        ways["fill", "torch fill_"] = size, repeated(lambda i: y.fill_(1.5))
        ways["fill", "torch zero_ (memset)"] = size, repeated(lambda i: y.zero_())
        ways["read", "torch sum"] = size, repeated(lambda i: x[i].sum())
        ways["triad", "torch add"] = 3 * size, repeated(lambda i: torch.add(x[0], x[1], out=y))
    if cupy is not None and torch is not None and PLACE == "cuda":
        def raw():
            module = cupy.RawModule(code=READ_KERNEL)
            read, triad = module.get_function("read4"), module.get_function("triad")
            pointers = [np.uint64(a.data_ptr()) for a in (*x, y)]
            ways["read", "float4 kernel"] = size, repeated(
                lambda i: read((ELEMENTS // 4096,), (256,), (pointers[i], pointers[2])))
            ways["triad", "float4 kernel"] = 3 * size, repeated(
                lambda i: triad((ELEMENTS // 1024,), (256,), tuple(pointers)))
        attempt("CuPy raw kernels", raw)
    times = measure({f"{kind}: {way}": call for (kind, way), (_, call) in ways.items()})
    print("\n### Limits, GB/s\n\n| limit | way | GB/s |\n|---|---|---|")
    for (kind, way), (moved, _) in ways.items():
        seconds = times.get(f"{kind}: {way}")
        if seconds:
            rate = moved / seconds / 1e9
            report["limits"][kind] = max(rate, report["limits"].get(kind, 0))
            report["speeds"].append({"job": f"limit {kind}", "peer": way, "seconds": seconds, "gb_per_s": rate})
            print(f"| {kind} | {way} | {rate:.0f} |")


def elementwise(dtype):
    """exp in a dtype, and its gradient in f32, of ELEMENTS elements."""
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    size = 4 if dtype == "f32" else 2
    calls, backward = {}, {}
    if mlxn is not None:
        x, y = [mlxn_array(ELEMENTS, dtype) for _ in range(SETS)], mlxn.create(dtype, (ELEMENTS,))
        calls["mlxn"] = Replay(lambda encoder, i: encoder.op("exp", x[i], y))
        backward["mlxn"] = Replay(lambda encoder, i: encoder.op("exp_backward", x[i], x[1 - i], y))
    if torch is not None:
        t = [torch_array(ELEMENTS, getattr(torch, names[dtype])) for _ in range(SETS)]
        u = torch.empty_like(t[0])
        calls["torch.exp(out=)"] = repeated(lambda i: torch.exp(t[i], out=u))
        backward["torch.mul(out=)"] = repeated(lambda i: torch.mul(t[i], t[1 - i], out=u))
        if cupy is not None and dtype != "bf16":
            def with_cupy():
                c, d = [cupy.from_dlpack(a) for a in t], cupy.from_dlpack(u)
                calls["cupy.exp(out=)"] = repeated(lambda i: cupy.exp(c[i], out=d))
            attempt("CuPy", with_cupy)
    add_rows(f"exp {dtype} {ELEMENTS}", 2 * size * ELEMENTS, "copy", calls)
    if dtype == "f32":
        add_rows(f"exp_backward {dtype} {ELEMENTS}", 3 * size * ELEMENTS, "triad", backward)


class Matrices:
    """The arrays of the outer product's jobs in f32, which all shapes share."""

    def __init__(self, x, y):
        if mlxn is not None:
            self.whole = [mlxn_array(ELEMENTS, "f32") for _ in range(SETS)]
            self.vectors = [mlxn_array(LONGEST, "f32") for _ in range(4)]
        self.x, self.y = x, y
        if torch is not None:
            self.t = [torch_array(LONGEST, torch.float32) for _ in range(4)]

    def mlxn_jobs(self, n, m):
        dy = [whole.view(0, (n, m)) for whole in self.whole]
        lhs, rhs, dlhs, drhs = (v.view(0, (e,)) for v, e in zip(self.vectors, (n, m, n, m)))
        return {
            "outer_product": Replay(lambda e, i: e.op("outer_product", lhs, rhs, dy[1])),
            "dlhs": Replay(lambda e, i: e.op("outer_product_backward_lhs", dy[i], rhs, dlhs)),
            "drhs": Replay(lambda e, i: e.op("outer_product_backward_rhs", dy[i], lhs, drhs)),
            "both": Replay(lambda e, i: e.op("outer_product_backward", dy[i], lhs, rhs, dlhs, drhs)),
        }

    def torch_jobs(self, n, m):
        dy = [a.view(n, m) for a in self.x]
        y = self.y.view(n, m)
        lhs, rhs, dlhs, drhs = (v[:e] for v, e in zip(self.t, (n, m, n, m)))

        def both(i):
            torch.mv(dy[i], rhs, out=dlhs)
            torch.mv(dy[i].t(), lhs, out=drhs)

        jobs = {
            "outer_product": {"torch.outer(out=)": repeated(lambda i: torch.outer(lhs, rhs, out=y))},
            "dlhs": {"torch.mv": repeated(lambda i: torch.mv(dy[i], rhs, out=dlhs))},
            "drhs": {"torch.mv": repeated(lambda i: torch.mv(dy[i].t(), lhs, out=drhs))},
            "both": {"two torch.mv": repeated(both)},
        }

        def autograd():
            left, right = lhs.clone().requires_grad_(), rhs.clone().requires_grad_()
            product = torch.outer(left, right)
            return repeated(lambda i: torch.autograd.grad(product, (left, right), dy[i], retain_graph=True))
        call = attempt(f"autograd of torch.outer {n}x{m}", autograd)
        if call is not None:
            jobs["both"]["autograd of torch.outer"] = call
        return jobs

    def compiled(self, n, m):
        """Both gradients by torch.compile, from their plain formulas."""
        dy = [a.view(n, m) for a in self.x]
        lhs, rhs = (v[:e] for v, e in zip(self.t, (n, m)))
        both = torch.compile(lambda d, a, b: ((d * b).sum(1), (d * a[:, None]).sum(0)), dynamic=False)
        both(dy[0], lhs, rhs)
        return repeated(lambda i: both(dy[i], lhs, rhs))


JOBS = {  # the op, its limit, and how many vectors of N and of M it moves beside the matrix
    "outer_product": ("outer_product", "fill", 1, 1),
    "dlhs": ("outer_product_backward_lhs", "read", 1, 1),
    "drhs": ("outer_product_backward_rhs", "read", 1, 1),
    "both": ("outer_product_backward", "read", 2, 2),
}


def matrix_bytes(job, n, m):
    _, _, ns, ms = JOBS[job]
    return 4 * (n * m + ns * n + ms * m)


def outer_products(matrices):
    for n, m in SHAPES:
        own = attempt(f"mlxn {n}x{m}", lambda: matrices.mlxn_jobs(n, m)) if mlxn is not None else None
        peers = attempt(f"PyTorch {n}x{m}", lambda: matrices.torch_jobs(n, m)) if torch is not None else None
        for job, (op, limit, _, _) in JOBS.items():
            calls = {"mlxn": own[job]} if own else {}
            calls.update(peers[job] if peers else {})
            add_rows(f"{op} f32 {n}x{m}", matrix_bytes(job, n, m), limit, calls)


def compiled_gradients(matrices):
    """Compiling takes many seconds a shape, so it comes last, as far as the time goes."""
    for n, m in SHAPES:
        label = f"torch.compile {n}x{m}"
        if time.monotonic() - started > options.seconds:
            left_out(label, "no time left")
            continue
        call = attempt(label, lambda: matrices.compiled(n, m))
        if call is not None:
            add_rows(f"outer_product_backward f32 {n}x{m}", matrix_bytes("both", n, m), "read", {"torch.compile": call})


# ---- memory beyond the buffers ----


def free_memory():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) != 0:
        raise OSError("cuMemGetInfo failed: no context is current")
    return free.value


GRADIENTS = {"outer_product_backward_lhs": (0, 2, 3), "outer_product_backward_rhs": (0, 1, 4),
             "outer_product_backward": (0, 1, 2, 3, 4)}  # places among dy, lhs, rhs, dlhs, drhs


def memory_taken(name, n, m):
    """Bytes that are no longer free once the op has run, which were so when its buffers were there. A device of its own
    has kept nothing for reuse; its kernels are loaded by a small job first."""
    device = mlxn_ctypes.Device(options.device)
    whole = [device.create("f32", shape) for shape in ((n * m,), (n,), (m,), (n,), (m,))]

    def run(rows, columns):
        shapes = (rows, columns), (rows,), (columns,), (rows,), (columns,)
        views = [buffer.view(0, shape) for buffer, shape in zip(whole, shapes)]
        encoder = device.encoder()
        encoder.op(name, *(views[k] for k in GRADIENTS[name]))
        encoder.run()
        return encoder
    small = run(min(n, 2048), min(m, 2048))
    before = free_memory()
    encoder = run(n, m)
    taken = before - free_memory()
    encoder.close()
    small.close()
    return taken


def memory_beyond_buffers():
    print("\n### GPU memory beyond the buffers\n\n| op | shape | MiB taken | 1/64 of dy, MiB |\n|---|---|---|---|")
    for n, m in SHAPES:
        for name in GRADIENTS:
            taken = attempt(f"memory of {name} {n}x{m}", lambda: memory_taken(name, n, m))
            if taken is None:
                return
            report["memory"].append({"op": name, "shape": [n, m], "bytes": taken, "dy_bytes": 4 * n * m})
            print(f"| {name} | {n}x{m} | {taken / 2**20:.1f} | {4 * n * m / 64 / 2**20:.1f} |", flush=True)


# ---- small work ----


def run_program(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, **more)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip() or f"exit status {done.returncode}")
    return done.stdout


def overheads():
    """mlxn and the bare driver on kernels of 64 elements, each in a process of its own, in turns.

    What the host does takes a third longer on one processor core than on another, as its neighbours let it: both programs
    of a round share a core, rounds have different ones, and the ratio is the median of the rounds' own.
    """
    measures = (("host: encode and commit, of 1000 / a launch", "encoded_dispatch_seconds", "launch"),
                ("one op and its wait", "encode_commit_wait_seconds", "launch_and_wait"),
                ("a dispatch of a replayed 1000 / a graph's node", "replayed_dispatch_seconds", "graph_node"))
    cores = sorted(os.sched_getaffinity(0))
    rounds = 1 if options.rehearse else 5
    driver, own = [], []
    with tempfile.TemporaryDirectory() as folder:
        costs, result = str(pathlib.Path(folder) / "driver_costs"), str(pathlib.Path(folder) / "overhead.json")
        built = attempt("driver_costs", lambda: run_program(*shlex.split(os.environ.get("CC", "cc")), "-O2",
                                                            "-o", costs, str(here / "driver_costs.c"), "-ldl"))
        for i in range(rounds):
            def on_core(core=cores[i * len(cores) // rounds]):
                os.sched_setaffinity(0, {core})
            if built is not None:
                built = attempt("the bare driver", lambda: run_program(costs, preexec_fn=on_core))
            lines = [line.split() for line in (built or "").splitlines()]
            driver.append({name: float(value) for name, value in lines})
            done = attempt("mlxn bench --overhead", lambda: run_program(
                options.program, "bench", "exp", "--overhead", "--dtype", "f32", "--device", options.device,
                "--json", result, preexec_fn=on_core))
            row = json.load(open(result))["overheads"][0] if done is not None else {}
            own.append({name: row[name] * 1e6 for _, name, _ in measures if name in row})
    print("\n### Small work: 64 elements, µs\n\n| | mlxn | the bare driver | ratio, of a round |\n|---|---|---|---|")
    for label, name, bare in measures:
        both = [(a[name], b[bare]) for a, b in zip(own, driver) if name in a and bare in b]
        columns = ([a for a, _ in both] or [a[name] for a in own if name in a],
                   [b for _, b in both], [a / b for a, b in both])
        values = [statistics.median(column) if column else None for column in columns]
        report["overheads"][label] = dict(zip(("mlxn", "driver", "ratio"), values))
        print(f"| {label} | " + " | ".join(f"{v:.3f}" if v is not None else "–" for v in values) + " |", flush=True)


def small_torch():
    """What a small op costs a user of PyTorch."""
    x, y = torch_array(64, torch.float32), torch.empty(64, device=PLACE)
    torch.exp(x, out=y)
    synchronize()
    eager = timed(repeated(lambda i: torch.exp(x, out=y)), 1000) * 1e6

    def waited(count):
        for _ in range(count):
            torch.exp(x, out=y)
            synchronize()
    print(f"| torch.exp(out=), 1000 of them | {eager:.3f} | | |")
    print(f"| torch.exp(out=) and synchronize | {timed(waited, 500) * 1e6:.3f} | | |", flush=True)


def warm_start():
    """From the start of a process to its first result in a file, kernels being in the disk cache."""
    with tempfile.TemporaryDirectory() as folder:
        x, y = (str(pathlib.Path(folder) / name) for name in ("x.npy", "y.npy"))
        np.save(x, pattern[:1024])
        words = (options.program, "run", "exp", x, "-o", y, "--device", options.device)
        run_program(*words)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            run_program(*words)
            times.append(time.perf_counter() - start)
        report["overheads"]["warm start, seconds"] = statistics.median(times)
        print(f"\nA warm start, `mlxn run exp` on 1024 elements with its kernel in the disk cache: "
              f"{statistics.median(times):.3f} s", flush=True)


def main():
    print("## mlxn beside its peers on a GPU\n")
    if torch is not None:
        name = torch.cuda.get_device_name() if PLACE == "cuda" else "no GPU"
        report["versions"] = f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}), {name}"
        print(f"- {report['versions']}")
    if cupy is not None:
        print(f"- CuPy {cupy.__version__}")
    if mlxn is not None:
        print(f"- mlxn {mlxn_ctypes.version} on {options.device}")
    print(f"- medians of {options.rounds} rounds in turns, at least {SAMPLE * 1e3:.0f} ms of work each; GB/s of the fewest "
          "bytes; 'mlxn 2.00×' means that mlxn is twice as fast as that peer", flush=True)
    x = y = None
    if torch is not None:
        x, y = [torch_array(ELEMENTS, torch.float32) for _ in range(SETS)], torch.empty(ELEMENTS, device=PLACE)
    limits(x, y)
    attempt("small work", overheads)
    if torch is not None:
        attempt("small work of PyTorch", small_torch)
    attempt("warm start", warm_start)
    print("\n### Speeds, GB/s\n\n| job | mlxn | peers |\n|---|---|---|")
    for dtype in "f32", "bf16", "f16":
        attempt(f"exp {dtype}", lambda: elementwise(dtype))
    matrices = attempt("matrices", lambda: Matrices(x, y))
    if matrices is not None:
        attempt("outer products", lambda: outer_products(matrices))
        if torch is not None:
            attempt("torch.compile", lambda: compiled_gradients(matrices))
        if mlxn is not None:
            attempt("memory", memory_beyond_buffers)
    print(f"\n{time.monotonic() - started:.0f} s in all")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    return 0 if mlxn is not None and any(row["peer"] == "mlxn" for row in report["speeds"]) else 1


if __name__ == "__main__":
    sys.exit(main())
