"""A demo on a terminal: bars of words a second beside the curve of the loss, the machines, and what has happened."""
import shutil
import sys

PALETTE = {"kolo": 208, "PyTorch": 39, "quiet": 245, "bad": 196, "good": 77}
CURVE_WIDTH, CURVE_HEIGHT = 44, 9
LOG_LINES = 10


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def colored(text, color):
    return f"\x1b[38;5;{PALETTE[color]}m{text}\x1b[0m"


def braille(points, width, height):
    """Lines of width characters, each of 2 x 4 dots, for points whose x and y are 0 to 1; y grows upwards."""
    cells = [[0] * width for _ in range(height)]
    bits = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
    for x, y in points:
        column, row = min(int(x * 2 * width), 2 * width - 1), min(int((1 - y) * 4 * height), 4 * height - 1)
        cells[row // 4][column // 2] |= bits[column % 2][row % 4]
    return ["".join(chr(0x2800 + cell) for cell in line) for line in cells]


def rate_lines(story):
    """CURVE_HEIGHT lines of 40 characters: a bar for each trainer."""
    lines = ["words a second".ljust(40), " " * 40]
    now = {name: turns[-1][-1][1] if name == story.turn and turns[-1] else story.means.get(name)
           for name, turns in story.rates.items()}
    highest = max([*story.means.values(), *(rate for rate in now.values() if rate), 1])
    for name in ("kolo", "PyTorch"):
        rate = now.get(name)
        label = f"{name} + Gloo" if name == "PyTorch" else name
        if rate is None:
            lines += [f"{label:16}{'waits for its turn':24}", " " * 40, " " * 40]
            continue
        tells = "now" if name == story.turn else "mean"
        bar = "█" * max(1, round(38 * rate / highest))
        lines += [f"{label:16}{rate:>10,.0f} {tells:13}", colored(f"{bar:40}", name), " " * 40]
    return (lines + [" " * 40] * CURVE_HEIGHT)[:CURVE_HEIGHT]


def loss_lines(story):
    """CURVE_HEIGHT lines: the curve with its highest and lowest loss."""
    title = "loss, over words trained; ┊ marks what happened"
    if len(story.losses) < 2:
        return [title] + [""] * (CURVE_HEIGHT - 1)
    words, losses = [point[0] for point in story.losses], [point[1] for point in story.losses]
    low, high = min(losses), max(losses)
    curve = braille([(w / words[-1], (loss - low) / max(high - low, 1e-9)) for w, loss in zip(words, losses)],
                    CURVE_WIDTH, CURVE_HEIGHT - 1)
    for _, at, _ in story.marks:
        column = min(int(at / words[-1] * CURVE_WIDTH), CURVE_WIDTH - 1)
        curve = [line[:column] + "┊" + line[column + 1:] if line[column] == "\u2800" else line for line in curve]
    labels = [f"{high:.2f}"] + [""] * (CURVE_HEIGHT - 3) + [f"{low:.2f}"]
    return [title] + [f"{label:>6} {colored(line, 'kolo')}" for label, line in zip(labels, curve)]


def frame(story):
    """All lines of the screen."""
    states = {"": "quiet", "unplugged": "bad", "joins": "good"}
    machines = "   ".join(f"{number} " + colored("●", states.get(state, "kolo" if state.startswith("rank") else "quiet"))
                          + f" {state or 'waits'}" for number, state in enumerate(story.machines))
    head = f"\x1b[1m{story.title}\x1b[0m"
    lines = [f" {head}   {clock(story.now())} of {clock(story.seconds)}", ""]
    lines += [f" {left}  {right}" for left, right in zip(rate_lines(story), loss_lines(story))]
    lines += [f" machines  {machines}", ""]
    return lines + [f" {colored(clock(at), 'quiet')}  {text}" for at, text in story.log[-LOG_LINES:]]


class Screen:
    """Draws on a terminal; anywhere else it prints each line of the log once."""

    def __init__(self, out=sys.stdout):
        self.out, self.is_terminal, self.printed = out, out.isatty(), 0
        if self.is_terminal:
            out.write("\x1b[?1049h\x1b[?25l")

    def draw(self, story):
        if self.is_terminal:
            size = shutil.get_terminal_size()
            self.out.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in frame(story)[:size.lines - 1]) + "\x1b[J")
        else:
            for at, text in story.log[self.printed:]:
                self.out.write(f"{clock(at)}  {text}\n")
            self.printed = len(story.log)
        self.out.flush()

    def close(self, story):
        """Leaves the last picture where it can be scrolled to."""
        if self.is_terminal:
            self.out.write("\x1b[?25h\x1b[?1049l" + "\n".join(frame(story)) + "\n")
            self.out.flush()
        else:
            self.draw(story)
