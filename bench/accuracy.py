"""How far the results of mlxn and its peers are from the truth, computed in float64."""
import numpy as np

STORAGE = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}


def aligned(shape, dtype):
    """An array of zeros on a 64-byte boundary, its pages touched."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    memory[::4096] = 0
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(shape)


def from_f64(values, dtype):
    """Rounds float64 to nearest, ties to even, once. bf16 comes as its bits in uint16."""
    if dtype != "bf16":
        return values.astype(STORAGE[dtype])
    with np.errstate(over="ignore"):
        f32 = values.astype(np.float32)
    # Round to odd in float32 first, so that the second rounding cannot be misled by the first.
    bits = f32.view(np.uint32).copy()
    exact = f32.astype(np.float64)
    away = np.isfinite(values) & (np.abs(exact) > np.abs(values))
    bits[away] -= 1
    bits[np.isfinite(values) & (exact != values)] |= 1
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def to_f64(array, dtype):
    if dtype == "bf16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def order(array, dtype):
    """Integers that count the representable numbers in between; a NaN is far from everything but a NaN."""
    bits = array.view(np.int32 if dtype == "f32" else np.int16).astype(np.int64)
    smallest = np.int64(-(1 << 31) if dtype == "f32" else -(1 << 15))
    steps = np.where(bits < 0, smallest - bits, bits)
    return np.where(np.isnan(to_f64(array, dtype)), np.int64(1) << 40, steps)


def exp_inputs(dtype, samples):
    """Every input of a 16-bit type; of f32 a random sample of those whose result is neither 0 nor infinite."""
    if dtype != "f32":
        return np.arange(1 << 16, dtype=np.uint16).view(STORAGE[dtype])
    random = np.random.default_rng(2)
    bits = random.integers(0, 1 << 32, size=4 * samples, dtype=np.uint32)
    x = bits.view(np.float32)
    return np.ascontiguousarray(x[(x > -103.9) & (x < 88.7)][:samples])


def exp_errors(peer, dtype, samples):
    """(inputs, misrounded results, largest distance in representable numbers), or None."""
    x = exp_inputs(dtype, samples)
    inputs = x[:x.size // 16 * 16]
    x, y = aligned(inputs.size, inputs.dtype), aligned(inputs.size, inputs.dtype)
    x[:] = inputs
    call = peer.exp(dtype, x, y)
    if call is None:
        return None
    y = peer.result(call(), y)
    with np.errstate(all="ignore"):
        truth = from_f64(np.exp(to_f64(x, dtype)), dtype)
    distance = np.abs(order(y, dtype) - order(truth, dtype))
    return x.size, int(np.count_nonzero(distance)), int(distance.max())


def sum_errors(peer):
    """Mean errors of row and column sums in units of eps · Σ|terms|, and how many rows' bits depend on their batch."""
    random = np.random.default_rng(3)
    matrix = random.standard_normal((1024, 4096)).astype(np.float32)
    lhs, rhs = random.standard_normal(1024).astype(np.float32), random.standard_normal(4096).astype(np.float32)
    dlhs, drhs, one = np.zeros(1024, np.float32), np.zeros(4096, np.float32), np.zeros(1, np.float32)
    calls = peer.rows(matrix, rhs, dlhs), peer.columns(matrix, lhs, drhs)
    if None in calls:
        return None
    dlhs, drhs = (peer.result(call(), out) for call, out in zip(calls, (dlhs, drhs)))
    truth, magnitude = matrix.astype(np.float64), np.abs(matrix.astype(np.float64))
    eps = np.finfo(np.float32).eps
    lhs64, rhs64 = lhs.astype(np.float64), rhs.astype(np.float64)
    rows = np.mean(np.abs(dlhs - truth @ rhs64) / (magnitude @ np.abs(rhs64)))
    columns = np.mean(np.abs(drhs - lhs64 @ truth) / (np.abs(lhs64) @ magnitude))
    changed = 0
    for i in range(matrix.shape[0]):
        alone = peer.result(peer.rows(matrix[i:i + 1], rhs, one)(), one)
        changed += alone[0] != dlhs[i]
    return rows / eps, columns / eps, changed


def print_tables(peers, samples):
    print("| exp | inputs | " + " | ".join(peer.name for peer in peers) + " |")
    print("|---|---|" + "---|" * len(peers))
    for dtype in STORAGE:
        inputs, cells = 0, []
        for peer in peers:
            errors = exp_errors(peer, dtype, samples)
            if errors is None:
                cells.append("–")
            else:
                inputs = errors[0]
                cells.append(f"{errors[1]} misrounded" + (f", ≤ {errors[2]} ulp" if errors[1] else ""))
        print(f"| {dtype} | {inputs} | " + " | ".join(cells) + " |", flush=True)
    print("\n| sums of a 1024 × 4096 matrix, f32 | mean error of row sums | of column sums (both in eps·Σ&#124;terms&#124;)"
          " | rows of 1024 whose bits change when computed alone |")
    print("|---|---|---|---|")
    for peer in peers:
        errors = sum_errors(peer)
        if errors is not None:
            print(f"| {peer.name} | {errors[0]:.4f} | {errors[1]:.4f} | {errors[2]} |", flush=True)


def print_exhaustive(peers):
    """All 2^32 inputs of exp in float32, against mlxn's results, which `mlxn check --exhaustive exp` proves right."""
    block, own = 1 << 24, peers[0]
    others = [peer for peer in peers[1:] if peer.exp("f32", np.zeros(16, np.float32), np.zeros(16, np.float32))]
    counts, largest = {peer.name: 0 for peer in others}, {peer.name: 0 for peer in others}
    truth, y = aligned(block, np.float32), aligned(block, np.float32)
    x = aligned(block, np.float32)
    for start in range(0, 1 << 32, block):
        x.view(np.uint32)[:] = np.arange(start, start + block, dtype=np.uint32)
        own.result(own.exp("f32", x, truth)(), truth)
        for peer in others:
            result = peer.result(peer.exp("f32", x, y)(), y)
            different = result.view(np.uint32) != truth.view(np.uint32)
            different &= ~(np.isnan(result) & np.isnan(truth))
            if different.any():
                distance = np.abs(order(result[different], "f32") - order(truth[different], "f32"))
                counts[peer.name] += distance.size
                largest[peer.name] = max(largest[peer.name], int(distance.max()))
    print("| exp f32, all 2^32 inputs | misrounded | largest distance from the right result |")
    print("|---|---|---|")
    for peer in others:
        print(f"| {peer.name} | {counts[peer.name]:,} | {largest[peer.name]:,} ulp |")
