"""Measures corral and k9s in turns: turns.py CORRAL K9S FOLDER ROUNDS IDLE. See benches/beside."""
import json
import os
import re
import statistics
import subprocess
import sys
import time

from terminal import Program, Tmux, marked, text

corral, k9s, folder, rounds, idle = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
STILL = "--demo=large,up=hv2,pace=10000"
ALL = 10_000
ROW = re.compile(r"\b[a-z]+-(?:prod|stage|dev|qa)-\d{4}\b")
# Of the same rows on both sides: those of a queue or of stage qa.
KEY = "q"
MOVES = 20
MINUTE = 60
# Seconds until corral, which asks for four addresses of guests a second and context, has those of all.
SETTLED = 210


def names(screen):
    return tuple(match[0] for match in map(ROW.search, map(text, screen)) if match)


def cursor(screen):
    return marked(screen, ROW)


class Side:
    def __init__(self, what, argv, counted, leave):
        self.what, self.argv, self.counted, self.leave = what, argv, re.compile(counted), leave
        self.home = os.path.join(folder, what.split()[0])
        os.makedirs(self.home, exist_ok=True)
        self.figures = {}

    def note(self, what, value):
        self.figures.setdefault(what, []).append(value)

    def open(self):
        return Program(tmux, self.home, self.argv)

    def count(self, screen):
        """How many rows its title says there are."""
        found = self.counted.search("\n".join(map(text, screen)))
        return int(found[1].replace(",", "")) if found else None

    def opened(self):
        """A program, and the screens until all is there."""
        program = self.open()
        seen = program.frames(program.started, 60, lambda screen: self.count(screen) == ALL and names(screen))
        if not seen or self.count(seen[-1][1]) != ALL:
            raise RuntimeError(f"{self.what} does not show {ALL} rows:\n" + "\n".join(map(text, program.screen())))
        return program, seen


def arrived(frames, seen):
    """When the screen first was as it is in the end, in this respect; it must not have been so before."""
    last = seen(frames[-1][1])
    if seen(frames[0][1]) == last:
        raise RuntimeError("nothing came of a key:\n" + "\n".join(map(text, frames[-1][1])))
    return 1000 * next(moment for moment, screen in frames if seen(screen) == last)


def look(side, counts):
    """One round: start, memory, cursor, filter."""
    program, seen = side.opened()
    counts("first", 1000 * next(moment for moment, screen in seen if names(screen)))
    counts("all", 1000 * seen[-1][0])
    program.frames(time.monotonic(), 10)
    counts("memory", program.memory())
    counts("peak", program.memory("VmHWM"))
    for _ in range(MOVES):
        counts("cursor", arrived(program.typed("Down", cursor, 5, 0.3), cursor))
    program.typed("/")
    frames = program.typed(KEY, names)
    counts("filter", arrived(frames, names))
    if side.count(frames[-1][1]) in (None, 0, ALL):
        raise RuntimeError(f"{side.what} does not filter")
    counts("left", side.count(frames[-1][1]))
    program.end(*side.leave)


def rest(sides):
    """Both are open and left alone, and are listened to in turns."""
    programs = [(side, side.opened()[0]) for side in sides]
    for side, program in programs:
        program.frames(program.started, SETTLED)
        side.note("settling", program.cpu())
    for _ in range(idle):
        for side, program in programs:
            path = os.path.join(folder, "bytes")
            program.record(path)
            before = program.cpu()
            program.frames(time.monotonic(), MINUTE)
            side.note("cpu", program.cpu() - before)
            program.record(None)
            time.sleep(0.5)
            side.note("bytes", os.path.getsize(path))
            os.remove(path)
    for side, program in programs:
        program.end(*side.leave)


def load():
    with open("/proc/loadavg", encoding="utf-8") as loads:
        return loads.read().split()[0]


def echo():
    """What the way through tmux takes by itself, in milliseconds."""
    def typed(screen):
        return text(screen[0]).rstrip()

    program = Program(tmux, folder, ["cat"])
    time.sleep(0.5)
    times = [arrived(program.typed("a", typed, 1, 0.1), typed) for _ in range(MOVES)]
    program.end()
    return statistics.median(times)


def fleet():
    """Corral's simulated instances as pods: namespace, name, phase."""
    phases = {"running": "Running", "stopped": "Succeeded", "crashed": "Failed"}
    listed = subprocess.run([corral, "--headless", "list", "-o", "json", STILL], check=True, capture_output=True,
                            env={"HOME": folder, "PATH": os.environ["PATH"]})
    return [f"{one['context']} {one['name']} {phases.get(one['state'], 'Pending')}" for one in json.loads(listed.stdout)["instances"]]


def version():
    """Of k9s: what Go says it was built from, where that is a version."""
    with open(k9s, "rb") as file:
        found = re.search(rb"mod\tgithub.com/derailed/k9s\t(v[0-9.]+)", file.read())
    if found:
        return found[1].decode()
    said = subprocess.run([k9s, "version", "--short"], capture_output=True, text=True, env={"HOME": folder}, check=True)
    return re.search(r"Version\s+(\S+)", said.stdout)[1]


def configured(port):
    """Files that have k9s ask nobody but the server of ours."""
    settings = os.path.join(folder, "k9s", ".config", "k9s")
    os.makedirs(settings, exist_ok=True)
    with open(os.path.join(settings, "config.yaml"), "w", encoding="utf-8") as file:
        file.write("k9s:\n  skipLatestRevCheck: true\n")
    path = os.path.join(folder, "kubeconfig")
    entry = {"clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
             "users": [{"name": "bench", "user": {}}],
             "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "bench", **entry}, file)
    return path


def row(what, key, unit, form):
    def cell(side):
        values = side.figures[key]
        least, middle, most = (format(how(values), form) for how in (min, statistics.median, max))
        return f"{middle} {unit}" + (f" ({least} to {most})" if least != most else "")
    print(f"| {what} | {cell(ours)} | {cell(peer)} |")


pods = fleet()
if len(set(pods)) != ALL:
    raise SystemExit(f"the simulated fleet has {len(set(pods))} instances")
with open(os.path.join(folder, "fleet"), "w", encoding="utf-8") as file:
    file.write("\n".join(pods))
api = subprocess.Popen([os.path.join(os.path.dirname(__file__), "apiserver"), os.path.join(folder, "fleet")], stdout=subprocess.PIPE)
tmux = None
try:
    tmux = Tmux(folder, 200, 60)
    config = configured(api.stdout.readline().decode().strip())
    ours = Side("corral", [corral, STILL], r"Inventory (\d+)", ("Escape", "q"))
    peer = Side("k9s", [k9s, "--kubeconfig", config, "--splashless", "-A", "-c", "pods"], r"(?i)pods\(all\)\[([\d,]+)\]", ("C-c",))
    before, nothing = load(), echo()
    for turn in range(rounds + 1):
        for side in (ours, peer) if turn % 2 else (peer, ours):
            # The first round fills the caches of both.
            look(side, side.note if turn else lambda *_: None)
    between = load()
    rest((ours, peer))
    now = load()
finally:
    if tmux:
        tmux.end()
    api.terminate()
    api.wait()

print(f"""## Beside k9s

Written by `benches/beside`, {ALL} rows each at 200x60, taken in turns: medians of {rounds} starts and filters, {rounds * MOVES} moves of the
cursor and {idle} minutes of idle, least and most in brackets. Load {before} before, {between} after the turns, {now} after idle; tmux itself has
a key on the screen after {nothing:.1f} ms. corral simulates its fleet in its own process (`corral {STILL}`); k9s
{version()} reads pods of 3 kB from an API server on loopback (`--splashless`, no metrics server), of which only its own part counts.

| what | corral | k9s |
|---|---|---|""")
row("first rows on the screen", "first", "ms", ".0f")
row(f"all {ALL} on the screen", "all", "ms", ".0f")
row("filter key to filtered screen", "filter", "ms", ".1f")
row("rows that the filter leaves", "left", "rows", ".0f")
row("cursor key to frame", "cursor", "ms", ".1f")
row("memory, 10 s after all is there", "memory", "MiB", ".0f")
row("most memory until then", "peak", "MiB", ".0f")
row(f"CPU in the first {SETTLED} s, start included", "settling", "s", ".2f")
row("CPU in 60 s of idle after that", "cpu", "s", ".2f")
row("bytes to the terminal in 60 s of idle after that", "bytes", "B", ".0f")
