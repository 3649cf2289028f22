"""What a demo has seen so far: the state that its screen and its page show, and the check of the samplers' records."""
import collections
import json
import time

WINDOW_S, LEAST_S = 3, 1  # over which words a second are counted


class Story:
    """Times are seconds since the demo began. Used by one thread."""

    def __init__(self, title, machines, seconds):
        self.title, self.seconds, self.begin = title, seconds, time.monotonic()
        self.machines = ["spare" if spare else "" for spare in machines]  # what each is doing
        self.rates = collections.defaultdict(list)  # of each trainer, of each of its turns: [(time, words a second)]
        self.means = {}                             # of each trainer, of all its steps
        self.losses = []                            # of kolo: (words trained, loss)
        self.marks = []                             # (time, words trained, text), for the plots
        self.log = []                               # (time, text)
        self.turn = None
        self._recent = {}
        self._totals = collections.defaultdict(lambda: [0, 0.0])  # of each trainer: words, seconds
        self._trained = 0

    def now(self):
        return time.monotonic() - self.begin

    def say(self, text, mark=None):
        """Into the log, and with `mark` also into the plots."""
        self.log.append((self.now(), text))
        if mark:
            self.marks.append((self.now(), self._trained, mark))

    def start_turn(self, trainer):
        self.turn, self._recent[trainer] = trainer, collections.deque([(self.now(), 0)])
        self.rates[trainer].append([])

    def step(self, words, loss):
        """The trainer whose turn it is has finished a step."""
        now, recent, total = self.now(), self._recent[self.turn], self._totals[self.turn]
        total[0], total[1] = total[0] + words, total[1] + now - recent[-1][0]
        recent.append((now, words))
        while len(recent) > 2 and recent[0][0] < now - WINDOW_S:
            recent.popleft()
        seconds = now - recent[0][0]
        if seconds >= LEAST_S:
            self.rates[self.turn][-1].append((now, sum(words for _, words in list(recent)[1:]) / seconds))
        self.means[self.turn] = total[0] / total[1]
        if self.turn == "kolo":
            self._trained += words
            self.losses.append((self._trained, loss))


def read_records(paths):
    """Of all processes' records: [(group, step, epoch, samples)], in the order of each file."""
    return [(line["group"], line["step"], line["epoch"], line["samples"]) for line in lines_of(paths) if "samples" in line]


def lines_of(paths):
    lines = []
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError:
                pass  # the process was killed while it wrote, so before it computed anything
    return lines


def check_records(records, steps, size):
    """records: of read_records(), what each rank has taken before it computed. steps: how many were finished. size: samples
    of an epoch. Of a step that several groups have begun, the last one's samples were trained. Returns [(epoch, samples
    trained once, missing, trained more than once)]. Samples that fill up an epoch's last step come twice, and are the first
    of those that were left."""
    last = {}
    for group, step, _, _ in records:
        last[step] = max(group, last.get(step, 0))
    epochs = collections.defaultdict(collections.Counter)
    for group, step, epoch, samples in records:
        if step < steps and group == last[step]:
            epochs[epoch].update(samples)
    return [(epoch, sum(1 for n in count.values() if n == 1), size - len(count), sum(1 for n in count.values() if n > 1))
            for epoch, count in sorted(epochs.items())]
