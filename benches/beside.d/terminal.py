"""Programs in a tmux of one's own, watched through a control client: no process starts for a look at the screen."""
import os
import re
import select
import signal
import subprocess
import time


class Tmux:
    """A server on its own socket, with a client that hears of everything that programs write."""

    def __init__(self, folder, columns, rows):
        self.base = ["tmux", "-S", os.path.join(folder, "tmux"), "-f", os.devnull]
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        subprocess.run([*self.base, "-u", "new-session", "-d", "-s", "beside", "-x", str(columns), "-y", str(rows), "sleep", "86400",
                        ";", "set", "-g", "default-size", f"{columns}x{rows}",
                        ";", "set", "-g", "escape-time", "0"], env=environment, check=True)
        self.client = subprocess.Popen([*self.base, "-u", "-C", "attach", "-t", "beside", "-f", "ignore-size"],
                                       env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.left = b""
        self.heard = []
        self.lines = []
        self.ask("display-message -p ready")

    def end(self):
        subprocess.run([*self.base, "kill-server"], stderr=subprocess.DEVNULL, check=False)
        self.client.wait(10)

    def read(self, timeout):
        """Takes in what tmux has said: (moment, line) each, output of programs noted as (moment, pane)."""
        if not select.select([self.client.stdout], [], [], timeout)[0]:
            return False
        chunk = os.read(self.client.stdout.fileno(), 1 << 20)
        now = time.monotonic()
        if not chunk:
            raise RuntimeError(f"tmux is gone: {self.lines}")
        *lines, self.left = (self.left + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"%output "):
                self.heard.append((now, line.split(b" ", 2)[1].decode()))
            else:
                self.lines.append(line)
        return True

    def ask(self, command):
        """The lines of its answer."""
        self.lines = []
        self.client.stdin.write(command.encode() + b"\n")
        self.client.stdin.flush()
        while True:
            starts = [n for n, line in enumerate(self.lines) if line.startswith(b"%begin ") and line.endswith(b" 1")]
            if starts:
                for n in range(starts[0], len(self.lines)):
                    if self.lines[n].startswith((b"%end ", b"%error ")):
                        answer = [line.decode("utf-8", "replace") for line in self.lines[starts[0] + 1:n]]
                        if self.lines[n].startswith(b"%error "):
                            raise RuntimeError(f"{command}: {' '.join(answer)}")
                        return answer
            self.read(10)


class Program:
    """One that runs in a window of its own. `frames` is what its screen was, each time after it wrote."""

    def __init__(self, tmux, home, argv):
        self.tmux = tmux
        words = ["env", "-i", f"HOME={home}", f"PATH={os.environ['PATH']}", "TERM=tmux-256color", "LC_ALL=C.UTF-8", *argv]
        self.started = time.monotonic()
        answer = tmux.ask("new-window -P -F '#{pane_id} #{pane_pid}' " + " ".join(f"'{word}'" for word in words))
        self.pane, pid = answer[0].split()
        self.pid = int(pid)

    def screen(self):
        return self.tmux.ask(f"capture-pane -p -e -t {self.pane}")

    def frames(self, since, seconds, until=None):
        """(Seconds after `since`, screen) whenever it wrote, for so long or until a screen is as wanted."""
        seen = []
        while (left := since + seconds - time.monotonic()) > 0:
            mine = [moment for moment, pane in self.tmux.heard if pane == self.pane]
            if not mine:
                self.tmux.read(min(left, 1))
                continue
            self.tmux.heard = []
            seen.append((mine[-1] - since, self.screen()))
            if until and until(seen[-1][1]):
                break
        return seen

    def typed(self, keys, seen=None, patience=30, rest=1):
        """The screens that follow when these keys are typed, first the one before them: for so many seconds after it
        looks otherwise in the respect that is asked for."""
        while self.tmux.read(0):
            pass
        before = self.screen()
        self.tmux.heard = []
        at = time.monotonic()
        self.tmux.ask(f"send-keys -t {self.pane} {keys}")
        frames = [(0, before)]
        if seen:
            frames += self.frames(at, patience, lambda screen: seen(screen) != seen(before))
        return frames + self.frames(at, time.monotonic() - at + rest)

    def stat(self):
        """What /proc has of it after its name."""
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()

    def cpu(self):
        """Seconds that it has spent so far, user and system."""
        fields = self.stat()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, what="VmRSS"):
        """In MiB."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:
            return int(re.search(rf"{what}:\s+(\d+)", status.read())[1]) / 1024

    def record(self, path):
        """From now on all that it writes goes into a file as well; None ends that."""
        self.tmux.ask(f"pipe-pane -t {self.pane}" + (f" 'exec cat >{path}'" if path else ""))

    def end(self, *keys):
        """Leaves it by these keys, or else by force."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.pid, number)
                for key in () if number else keys:
                    self.tmux.ask(f"send-keys -t {self.pane} {key}")
                    time.sleep(0.5)
                for _ in range(20):
                    # tmux may not have asked for its end yet.
                    if self.stat()[0] == "Z":
                        return
                    time.sleep(0.1)
            except (ProcessLookupError, FileNotFoundError):
                return
            except RuntimeError:
                # Its window is gone already.
                continue


def text(line):
    return re.sub(r"\x1b\[[0-9;:]*m|\x1b[()][A-Z0-9]|[\x0e\x0f]", "", line)


def marked(screen, rows):
    """Which of the rows that match this stands on a background of its own: where the cursor is, or None."""
    found, ground = {}, ("", False)
    for number, line in enumerate(screen):
        row, at = rows.search(text(line)), 0
        for piece in re.split(r"(\x1b\[[0-9;:]*m)", line):
            if piece.startswith("\x1b["):
                ground = after(ground, piece[2:-1].split(";"))
                continue
            if row and at <= row.start() < at + len(piece):
                found[number] = ground
            at += len(piece)
    alone = [number for number, one in found.items() if list(found.values()).count(one) == 1]
    return alone[0] if len(alone) == 1 else None


def after(ground, codes):
    """(Background, reversed) after an SGR with these codes."""
    colour, reverse = ground
    while codes:
        code = codes.pop(0)
        if code in ("", "0"):
            colour, reverse = "", False
        elif code in ("7", "27"):
            reverse = code == "7"
        elif code in ("38", "48"):
            length = 2 if codes[:1] == ["5"] else 4
            colour = ";".join(codes[:length]) if code == "48" else colour
            codes = codes[length:]
        elif re.fullmatch(r"4[0-79]|10[0-7]", code):
            colour = "" if code == "49" else code
    return colour, reverse
