# SPDX-License-Identifier: MIT
"""Golden traces that are too long to write by hand: training steps of some ranks, random programs, hostile names."""
import random

EXPLICIT, IMPLICIT, DEVICE = 1, 2, 3
LEGACY, PER_THREAD, BLOCKING, NON_BLOCKING = 1, 2, 3, 4
KERNEL, COPY = 1, 2


def quote(value):
    """A string of the text form: bytes or text; what is not plain ASCII as \\xNN."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    shown = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in value)
    return f'"{shown}"'


class Trace:
    """Events in any order of time; written sorted."""

    def __init__(self):
        self.events = []  # (ns, number, text)

    def add(self, ns, host, pid, tid, event, /, **fields):
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        self.events.append((ns, len(self.events), f"host={host} pid={pid} tid={tid} {event} {text}"))

    def lost(self, ns, host, number):
        self.events.append((ns, len(self.events), f"host={host} discarded {number}"))

    def write(self, path):
        with open(path, "w", encoding="ascii") as file:
            for ns, _, text in sorted(self.events):
                file.write(f"{ns // 10**9}.{ns % 10**9:09d} {text}\n")


class Process:
    def __init__(self, trace, ns, host, pid, rank, exe="/usr/bin/python3", command="python3 train.py", define=True):
        self.trace, self.host, self.pid, self.ns = trace, host, pid, ns
        self.strings, self.numbers, self.completed = {}, {}, {}
        self.define_now, self.late = define, []
        self.define("dump_begin", dump=1, reason=1)
        self.define("def_process", pid=pid, parent_pid=1, rank=rank, start_ns=ns, catalogue=1, exe=self.string(exe), command=self.string(command),
                    shim_version=self.string("0.1.0"), config=0, driver=0, driver_version=13000)
        self.define("dump_end", dump=1, events=1)

    def define(self, event, /, **fields):
        if self.define_now:
            self.trace.add(self.ns, self.host, self.pid, self.pid, event, **fields)
        else:
            self.late.append((event, fields))

    def define_late(self, ns):
        """What a session that started late gets with the next dump."""
        for event, fields in self.late:
            self.trace.add(ns, self.host, self.pid, self.pid, event, **fields)
        self.late, self.define_now, self.ns = [], True, ns

    def string(self, text):
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        if raw not in self.strings:
            self.strings[raw] = len(self.strings) + 1
            offset = 0
            while True:
                piece = raw[offset:offset + 500]
                self.define("def_string", id=self.strings[raw], length=len(raw), offset=offset, text=quote(piece))
                offset += 500
                if offset >= len(raw):
                    break
        return self.strings[raw]

    def at(self, ns, tid, event, /, **fields):
        self.trace.add(ns, self.host, self.pid, tid, event, **fields)

    def submit(self, ns, tid, stream, operation, name, call_ns, size=0, function=None):
        self.numbers[stream] = self.numbers.get(stream, 0) + 1
        self.at(ns, tid, "submit", stream=stream, operation=operation, function=0 if function is None else function, name=name, number=self.numbers[stream],
                bytes=size, call_ns=call_ns)
        return self.numbers[stream]

    def complete(self, ns, tid, stream, number):
        if number > self.completed.get(stream, 0):
            self.completed[stream] = number
            self.at(ns, tid, "completed", stream=stream, number=number)


KERNELS = ["void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
           "flash_fwd_kernel", "layer_norm_kernel", "softmax_warp_forward", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"]


def train(seed=1, ranks=2, steps=12, full=True):
    """Ranks of a training program: two threads each, a blocking copy, a synchronize, a `loss.item()`, a free now and then."""
    chance, trace = random.Random(seed), Trace()
    for rank in range(ranks):
        host, start = f"node{rank // 2}", 1_000_000_000 + rank * 300_000
        process = Process(trace, start, host, 4200 + rank, rank, command=f"python3 train.py --rank {rank} --batch 64")
        functions = ["cuMemcpyHtoD_v2", "cuStreamSynchronize", "cuMemcpyDtoH_v2", "cuMemFree_v2", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2"]
        for number, name in enumerate(functions):
            process.define("def_function", number=number, name=process.string(name), flags=3, handed_out=1)
        for number, (slug, cause, kind) in enumerate([
                ("pageable-h2d", "a pageable source is staged: the call returns when it may be reused", IMPLICIT),
                ("stream-synchronize", "the program asked for it", EXPLICIT),
                ("pageable-d2h", "a pageable destination is filled before the call returns", IMPLICIT),
                ("free-drains-device", "freeing waits for all work of the device", IMPLICIT),
                ("legacy-barrier", "the legacy stream orders all blocking streams", DEVICE)]):
            process.define("def_rule", number=number, slug=process.string(slug), cause=process.string(cause), **{"class": kind})
        process.define("def_module", id=1, path=process.string("/usr/lib/x86_64-linux-gnu/libcudart.so.13"), base=0x7f0000000000, build_id=quote("ab" * 20))
        process.define("def_module", id=2, path=process.string("/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so"), base=0x7f1000000000, build_id=quote("cd" * 20))
        for site, lines in enumerate([[("data.py", "to_device", 88), ("train.py", "step", 41), ("train.py", "main", 102)], [("train.py", "step", 57), ("train.py", "main", 102)],
                                      [("train.py", "log_loss", 63), ("train.py", "step", 58), ("train.py", "main", 102)], [("cache.py", "trim", 19), ("train.py", "main", 110)]], 1):
            process.define("def_site", id=site, frames=2, python_frames=len(lines))
            process.define("def_frame", site=site, index=0, module=1, offset=0x23450 + 64 * site)
            process.define("def_frame", site=site, index=1, module=2, offset=0xabcde0 + 256 * site)
            for index, (name, function, line) in enumerate(lines):
                process.define("def_python_frame", site=site, index=index, file=process.string("/home/user/project/" + name), function=process.string(function), line=line)
        process.define("def_context", context=1, device=rank % 2, id=1)
        for stream, kind in enumerate([LEGACY, NON_BLOCKING, BLOCKING], 1):
            process.define("def_stream", stream=stream, kind=kind, context=1, handle=hex(0x1000 * stream if stream > 1 else 0))
        kernels = [process.string(name) for name in KERNELS]
        copy = process.string("HtoD")
        for stream in (1, 2, 3):
            for index, name in enumerate(kernels):
                process.define("def_candidate", id=10 * stream + index, stream_kind=[0, LEGACY, NON_BLOCKING, BLOCKING][stream], context=1,
                               stream=0 if stream == 1 else stream, operation=KERNEL, name=name, certain=0)
        process.define("def_candidate_set", set=1 << 31, index=0, count=2, candidate=20)
        process.define("def_candidate_set", set=1 << 31, index=1, count=2, candidate=31)
        waits = [(0, 0, 1, 2, 6), (1, 1, 2, 0, 0), (2, 2, 3, 6, 2), (3, 3, 4, 0, 0)]
        for number, (function, rule, site, source, destination) in enumerate(waits, 1):
            process.define("def_wait", id=number, function=function, rule=rule, site=site, source_kind=source, destination_kind=destination, idle_basis=2)
        now = {process.pid: start + 1_000_000, process.pid + 50: start + 1_200_000}
        main, loader = process.pid, process.pid + 50

        def wait(tid, number, candidates, stream, size, blocked, done):
            call = blocked + chance.randint(2_000, 9_000)
            now[tid] += call
            process.at(now[tid], tid, "wait", wait=number, candidates=candidates, stream=stream, bytes=size, blocked_ns=blocked, call_ns=call)
            for one in done if full else ():
                process.complete(now[tid] + 300, tid, one, process.numbers.get(one, 0))
            now[tid] += 800

        for step in range(steps):
            for index in range(chance.randint(10, 16)):
                call = chance.randint(2_500, 6_000)
                now[main] += call + chance.randint(2_000, 30_000)
                if full:
                    process.submit(now[main], main, 2, KERNEL, kernels[chance.randrange(5)], call, function=4)
            wait(main, 3, 20 + chance.randrange(5), 2, 4, chance.randint(300_000, 900_000), [2])
            now[loader] = max(now[loader], now[main] - 1_500_000)
            if full:
                now[loader] += 9_000
                number = process.submit(now[loader], loader, 3, COPY, copy, 8_000, 1 << 20, function=5)
                process.at(now[loader] + 50, loader, "record", stream=3, number=number, event=0xe1)
                process.at(now[loader] + 100, loader, "stream_wait", stream=2, number=process.numbers[2], of_stream=3, of_number=number, event=0xe1)
            wait(loader, 1, 31, 3, chance.choice([1 << 20, 4 << 20]), chance.randint(80_000, 400_000), [3])
            if full and step % 4 == 1:
                now[main] += 5_000
                number = process.submit(now[main], main, 1, KERNEL, kernels[3], 4_000, function=4)
                process.at(now[main] + 40, main, "join", stream=1, number=number, of_stream=3, of_number=process.numbers[3])
            wait(main, 2, 25, 2, 0, chance.randint(100_000, 700_000) * (1 + rank % 2), [2, 1])
            if step % 5 == 2:
                wait(main, 4, 1 << 31, 0, 0, chance.randint(1_000_000, 2_400_000), [1, 2, 3])
        end = max(now.values())
        process.at(end + 1000, main, "process_end", end_ns=end, dropped=0)
    return trace


def small(trace=None, full=True, define=True):
    """One process with everything that a timeline draws, at round times; returns the process."""
    trace = trace or Trace()
    process = Process(trace, 1_000_000_000, "alpha", 77, -1, exe="/opt/demo", command="/opt/demo --all", define=define)
    for number, name in enumerate(["cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyHtoD_v2"]):
        process.define("def_function", number=number, name=process.string(name), flags=3, handed_out=1)
    for number, (slug, kind) in enumerate([("stream-synchronize", EXPLICIT), ("pageable-h2d", IMPLICIT)]):
        process.define("def_rule", number=number, slug=process.string(slug), cause=process.string("cause of " + slug), **{"class": kind})
    process.define("def_site", id=1, frames=0, python_frames=1)
    process.define("def_python_frame", site=1, index=0, file=process.string("/src/a.py"), function=process.string("go"), line=3)
    process.define("def_context", context=1, device=0, id=9)
    for stream, kind in ((1, LEGACY), (2, NON_BLOCKING), (3, BLOCKING)):
        process.define("def_stream", stream=stream, kind=kind, context=9, handle="0x0")
    kernel, copy = process.string("kernel_a"), process.string("HtoD")
    process.define("def_candidate", id=1, stream_kind=NON_BLOCKING, context=9, stream=2, operation=KERNEL, name=kernel, certain=0)
    process.define("def_candidate", id=2, stream_kind=LEGACY, context=9, stream=0, operation=COPY, name=copy, certain=1)
    process.define("def_candidate_set", set=(1 << 31) + 1, index=0, count=2, candidate=1)
    process.define("def_candidate_set", set=(1 << 31) + 1, index=1, count=2, candidate=2)
    process.define("def_wait", id=1, function=1, rule=0, site=1, idle_basis=1)
    process.define("def_wait", id=2, function=2, rule=1, site=1, source_kind=2, destination_kind=6, idle_basis=1)
    t = 2_000_000_000
    if full:
        process.submit(t + 10_000, 77, 2, KERNEL, kernel, 10_000)
        process.at(t + 12_000, 77, "record", stream=2, number=1, event="0xe1")
        process.at(t + 20_000, 78, "stream_wait", stream=3, number=0, of_stream=2, of_number=1, event="0xe1")
        process.submit(t + 32_000, 78, 3, KERNEL, kernel, 10_000)
        process.at(t + 40_000, 78, "join", stream=1, number=1, of_stream=3, of_number=1)
        process.submit(t + 100_000, 78, 1, COPY, copy, 50_000, 4096, function=2)  # the same call: submission, then its wait
    process.at(t + 100_500, 78, "wait", wait=2, candidates=(1 << 31) + 1, stream=1, bytes=4096, blocked_ns=40_000, call_ns=50_000)
    if full:
        process.complete(t + 100_900, 78, 1, 1)
        process.complete(t + 101_000, 78, 3, 1)
    process.at(t + 200_000, 77, "wait", wait=1, candidates=1, stream=2, bytes=0, blocked_ns=90_000, call_ns=100_000)
    if full:
        process.complete(t + 200_400, 77, 2, 1)
        process.submit(t + 300_000, 77, 2, KERNEL, kernel, 5_000)  # never seen complete
    if not define:
        process.define_late(t + 400_000)
    process.at(t + 500_000, 77, "process_end", end_ns=t + 500_000, dropped=0)
    return process


HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"quotes\" and 'quotes' and \\ and {\"a\":1}", "\x1b[31mred\x1b[0m\x07\r\n",
           "right\u202eto\u202cleft \u2066isolate\u2069 \u200bzero", "line\u2028and\u2029paragraph", b"\xff\xfe broken \xc3", "&lt;&amp;&#60;", "<!--", "]]>",
           "k" * 10240, "\u00fc\u6f22\u5b57\U0001f600" * 700, "%s%n%d", "", " ", "__proto__", "constructor", "javascript:alert(1)"]


def hostile():
    """Every name that a program can choose is one of HOSTILE."""
    trace = Trace()
    process = Process(trace, 1_000_000_000, "alpha", 99, 0, exe="/tmp/<b>" + HOSTILE[0], command=HOSTILE[3])
    for number, name in enumerate(HOSTILE):
        string = process.string(name)
        process.define("def_function", number=number, name=string, flags=3, handed_out=1)
        process.define("def_rule", number=number, slug=string, cause=string, **{"class": 1 + number % 3})
        process.define("def_region", id=number + 1, name=string)
        process.define("def_module", id=number + 1, path=string, base=0, build_id=quote("zz\" <x>"))
        process.define("def_site", id=number + 1, frames=1, python_frames=1)
        process.define("def_frame", site=number + 1, index=0, module=number + 1, offset=16)
        process.define("def_python_frame", site=number + 1, index=0, file=string, function=string, line=-5)
        process.define("def_candidate", id=number + 1, stream_kind=77, context=5, stream=2, operation=99, name=string, certain=7)
        process.define("def_wait", id=number + 1, function=number, rule=number, site=number + 1, region=number + 1, source_kind=200, destination_kind=2, idle_basis=9,
                       allowed=number % 2)
        process.define("def_note", note=number + 1, code=5, text=string, count=1)
    process.define("def_stream", stream=2, kind=99, context=5, handle="0x0")
    for number in range(len(HOSTILE)):
        t = 2_000_000_000 + number * 1_000_000
        process.submit(t, 99, 2, KERNEL, process.strings[HOSTILE[number].encode("utf-8", "surrogateescape") if isinstance(HOSTILE[number], str) else HOSTILE[number]], 1000, function=number)
        process.at(t + 500_000, 99, "wait", wait=number + 1, candidates=number + 1, stream=2, bytes=1, blocked_ns=300_000, call_ns=400_000)
        process.complete(t + 500_100, 99, 2, number + 1)
    return trace


def scrambled(seed, garbage=False):
    """A random program: threads that submit to any stream, waits of one and of many candidates, joins, completions in any batch.
    With `garbage` also events that no program emits: unknown ids, impossible durations and numbers."""
    chance, trace = random.Random(seed), Trace()
    processes = []
    for number in range(chance.randint(1, 3)):
        process = Process(trace, 1_000_000_000, f"host{number % 2}", 500 + number // 2, chance.choice([-1, number]))
        process.define("def_function", number=0, name=process.string("cuLaunchKernel"), flags=3, handed_out=1)
        for rule in range(3):
            process.define("def_rule", number=rule, slug=process.string(f"rule-{rule}"), cause=0, **{"class": rule + 1})
            process.define("def_wait", id=rule + 1, function=0, rule=rule, site=0)
        process.define("def_context", context=1, device=0, id=3)
        streams = chance.randint(1, 5)
        for stream in range(1, streams + 1):
            process.define("def_stream", stream=stream, kind=chance.randint(1, 4), context=3, handle="0x0")
            process.define("def_candidate", id=stream, stream_kind=3, context=3, stream=stream, operation=1, name=0)
            process.define("def_candidate_set", set=(1 << 31) + 1, index=stream - 1, count=streams, candidate=stream)
        processes.append((process, streams, {500 + 10 * thread: 2_000_000_000 for thread in range(chance.randint(1, 4))}))
    waits = submits = 0
    for _ in range(chance.randint(50, 400)):
        process, streams, threads = chance.choice(processes)
        tid = chance.choice(list(threads))
        stream, call = chance.randint(1, streams), chance.choice([0, 1, 50, 700, 3_000, 80_000])
        now = threads[tid] + call + chance.choice([1, 100, 5_000])
        kind = chance.random()
        if kind < .55:
            process.submit(now, tid, stream, chance.randint(1, 9), 0, call)
            submits += 1
            if chance.random() < .3:  # of the same call
                now += 200
        if kind < .1 or .55 <= kind < .75:
            process.at(now, tid, "wait", wait=chance.randint(1, 3), candidates=chance.choice([0, stream, (1 << 31) + 1]), stream=stream, bytes=0, blocked_ns=call // 2, call_ns=call)
            waits += 1
            for one in range(1, streams + 1):
                if chance.random() < .5 and process.numbers.get(one):
                    process.complete(now + 50, tid, one, chance.randint(1, process.numbers[one]))
        elif .75 <= kind < .9:
            other = chance.randint(1, streams)
            process.at(now, tid, chance.choice(["join", "stream_wait"]), stream=stream, number=process.numbers.get(stream, 0) + chance.randint(0, 1), of_stream=other,
                       of_number=process.numbers.get(other, 0))
        elif kind >= .9:
            process.at(now, tid, "record", stream=stream, number=process.numbers.get(stream, 0), event=5)
        if garbage and chance.random() < .2:
            big = chance.choice([0, 1, (1 << 63) - 1, (1 << 64) - 1, now])
            process.at(now + 10, tid, chance.choice(["wait wait=9 call_ns={0} blocked_ns={0} candidates=4000000000", "submit stream=4000000000 number={0} call_ns={0} name=77",
                                                     "completed stream=1 number={0}", "submit stream=1 number={0} call_ns=3", "join stream=2 number={0} of_stream=2 of_number={0}",
                                                     "wait wait=1 candidates=2147483649 call_ns=900000"]).format(big))
        threads[tid] = now + 100
    return trace, waits, submits
