#!/usr/bin/env python3
"""Times mlxn beside what a user would pick instead, in one process on the same arrays, and prints Markdown tables.

    python3 bench/peers.py                 # all jobs, two sizes; about three minutes
    python3 bench/peers.py --quick         # small arrays, few rounds: does everything run?
    python3 bench/peers.py --threads 1 --only numpy openblas
    python3 bench/peers.py --exhaustive    # only the count of misrounded results of exp; some minutes

Peers that are not installed are named and left out. README.md in this folder says how to install them.
"""
import argparse
import ctypes
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--quick", action="store_true")
parser.add_argument("--only", nargs="+", default=[], metavar="PEER", help="leave the other peers out of the process")
parser.add_argument("--exhaustive", action="store_true", help="only: misrounded results of exp over all 2^32 inputs")
arguments = parser.parse_args()
# The thread pools read these when they are loaded.
for variable in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
    os.environ[variable] = str(arguments.threads)

import numpy as np  # noqa: E402

import accuracy  # noqa: E402
import peer_libraries  # noqa: E402


def filled(shape, dtype, random, low=-4.0, high=4.0):
    array = accuracy.aligned(shape, accuracy.STORAGE[dtype])
    values = random.uniform(low, high, size=min(array.size, 1 << 20)).astype(np.float32)
    array.reshape(-1)[:] = np.resize(accuracy.from_f64(values.astype(np.float64), dtype), array.size)
    return array


def time_call(call, at_least):
    """Seconds of one call, averaged over as many as take `at_least` seconds."""
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= at_least:
            return elapsed / calls


def measure(calls):
    """The median time of each call; the peers take turns, so that a disturbance meets all of them. Before each turn
    the workers of the peer before get the time to stop spinning and to leave the processors (OpenBLAS's: 0.1 s)."""
    times = {name: [] for name in calls}
    for _ in range(arguments.rounds):
        for name, call in calls.items():
            time.sleep(0.2)
            call()
            times[name].append(time_call(call, 0.002 if arguments.quick else 0.02))
    return {name: statistics.median(values) for name, values in times.items()}


def jobs(elements, rows, columns):
    """Each job: its label, the bytes it must move, and a function from a peer to a call (or None)."""
    random = np.random.default_rng(1)
    for dtype in "f32", "f16", "bf16":
        size = np.dtype(accuracy.STORAGE[dtype]).itemsize
        x, y = filled(elements, dtype, random), accuracy.aligned(elements, accuracy.STORAGE[dtype])
        yield f"exp {dtype}", 2 * size * elements, lambda peer: peer.exp(dtype, x, y)
    x, y = filled(elements, "f32", random), filled(elements, "f32", random)
    z = accuracy.aligned(elements, np.float32)
    yield "exp_backward f32", 12 * elements, lambda peer: peer.multiply(x, y, z)
    del x, y, z
    lhs, rhs = filled(rows, "f32", random), filled(columns, "f32", random)
    matrix = filled((rows, columns), "f32", random)
    dlhs, drhs = accuracy.aligned(rows, np.float32), accuracy.aligned(columns, np.float32)
    vectors, all_bytes = 4 * (rows + columns), 4 * rows * columns
    yield "outer_product_backward_lhs f32", all_bytes + vectors, lambda peer: peer.rows(matrix, rhs, dlhs)
    yield "outer_product_backward_rhs f32", all_bytes + vectors, lambda peer: peer.columns(matrix, lhs, drhs)
    yield "outer_product_backward f32", all_bytes + 2 * vectors, lambda peer: peer.both(matrix, lhs, rhs, dlhs, drhs)
    yield "outer_product f32", all_bytes + vectors, lambda peer: peer.outer(lhs, rhs, matrix)


def speed_table(title, peers, elements, rows, columns):
    names = [peer.name for peer in peers]
    print(f"\n### {title}: {elements} elements, {rows} × {columns} matrices\n")
    print("GB/s; in brackets how many times as fast as that peer mlxn is.\n")
    print("| job | " + " | ".join(names) + " |")
    print("|---|" + "---|" * len(names))
    for label, size, make in jobs(elements, rows, columns):
        calls = {peer.name: call for peer in peers if (call := make(peer)) is not None}
        times = measure(calls)
        own = times[names[0]]
        cells = []
        for name in names:
            if name not in times:
                cells.append("–")
            else:
                rate = f"{size / times[name] / 1e9:.1f}"
                cells.append(f"**{rate}**" if name == names[0] else f"{rate} ({times[name] / own:.2f}×)")
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def main():
    peers, missing = peer_libraries.find(arguments.threads, arguments.only)
    print(f"mlxn beside its peers, {arguments.threads} threads, medians of {arguments.rounds} rounds")
    for peer in peers:
        print(f"- {peer.name}: {peer.version}")
    for name, reason in missing.items():
        print(f"- not here: {name} ({reason})")
    if arguments.exhaustive:
        print()
        accuracy.print_exhaustive(peers)
        return
    if arguments.quick:
        speed_table("Quick", peers, 1 << 16, 256, 256)
    else:
        speed_table("Out of cache (256 MB)", peers, 1 << 26, 8192, 8192)
        speed_table("In the second-level cache", peers, 1 << 15, 256, 256)
    print("\n### Accuracy\n")
    accuracy.print_tables(peers, 1 << 16 if arguments.quick else 1 << 22)


if __name__ == "__main__":
    main()
