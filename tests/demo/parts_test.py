"""parts_test.py PROJECT [PICTURE]: what a demo shows of a story, and which samples its check takes for trained."""
import io
import sys
import tempfile
import unittest
from pathlib import Path

PROJECT = Path(sys.argv[1])
PICTURE = sys.argv[2] if len(sys.argv) > 2 else None
sys.path += [str(PROJECT / "scripts"), str(PROJECT / "tests/draw")]
import browser  # noqa: E402
from demo_page import page  # noqa: E402
from demo_screen import Screen, frame  # noqa: E402
from demo_story import Story, check_records, read_records  # noqa: E402


def story():
    """A kolo turn of 20 s, at 4,000 words a second but for a gap, after a PyTorch turn at 1,000."""
    told, now = Story("4 machines train", [False] * 4 + [True], 60), [0.0]
    told.now = lambda: now[0]
    for trainer, words in (("PyTorch", 500), ("kolo", 2000)):
        told.start_turn(trainer)
        for step in range(40):
            now[0] += 0.5
            if trainer == "kolo" and step == 20:
                told.say("the plug of machine 2 is pulled", "the plug of machine 2 is pulled")
                told.machines[2] = "unplugged"
                now[0] += 5
            told.step(words, 8 - step / 20)
    return told


class StoryTest(unittest.TestCase):
    def test_means_count_all_the_time_of_a_turn(self):
        self.assertAlmostEqual(story().means["PyTorch"], 1000)
        self.assertAlmostEqual(story().means["kolo"], 40 * 2000 / 25)


class ScreenTest(unittest.TestCase):
    def test_shows_rates_loss_machines_and_events(self):
        text = "\n".join(frame(story()))
        for part in ("1,000 mean", "4,000 now", "8.00", "6.05", "unplugged", "spare", "the plug of machine 2 is pulled", "0:45 of 1:00", "┊"):
            self.assertIn(part, text)

    def test_prints_lines_where_there_is_no_terminal(self):
        out, told = io.StringIO(), story()
        screen = Screen(out)
        screen.draw(told)
        screen.close(told)
        self.assertEqual(out.getvalue(), "0:30  the plug of machine 2 is pulled\n")


@unittest.skipUnless(browser.find(), "there is no Chromium")
class PageTest(unittest.TestCase):
    def test_fits_wide_and_narrow_windows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index.html"
            path.write_text(page(story(), [(0, 500_000, 0, 0), (1, 20, 499_980, 0)]))
            window = browser.Browser()
            try:
                for width, dark in ((1000, False), (390, True)):
                    window.open(path, width, 900, dark)
                    self.assertLessEqual(window.evaluate("document.documentElement.scrollWidth"), width)
                    self.assertEqual(window.evaluate("document.querySelectorAll('path.line').length"), 3)
                    self.assertEqual(window.evaluate("document.querySelectorAll('line.mark').length"), 2)
                    self.assertIn("500,000", window.evaluate("document.body.innerText"))
                    if PICTURE:
                        window.screenshot(f"{PICTURE}-{width}.png")
                self.assertEqual(window.problems, [])
            finally:
                window.close()

    def test_looks_for_news_until_the_demo_is_over(self):
        self.assertIn("http-equiv=refresh", page(story()))
        self.assertNotIn("http-equiv=refresh", page(story(), []))


class RecordTest(unittest.TestCase):
    def test_a_step_that_no_rank_has_finished_does_not_count(self):
        records = [(7, 0, 0, [0, 1]), (7, 1, 0, [2, 3]), (7, 2, 0, [4, 5]), (8, 2, 0, [4, 5]), (8, 3, 1, [0, 1])]
        self.assertEqual(check_records(records, 3, 6), [(0, 6, 0, 0)])

    def test_samples_that_are_lost_or_come_twice_are_counted(self):
        records = [(7, 0, 0, [0, 1]), (7, 1, 0, [1, 3]), (8, 2, 1, [4])]
        self.assertEqual(check_records(records, 3, 6), [(0, 2, 3, 1), (1, 1, 5, 0)])

    def test_a_torn_line_was_not_computed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "record"
            path.write_text('{"group": 7, "step": 0, "epoch": 0, "samples": [0, 1]}\n{"group": 7, "st')
            self.assertEqual(read_records([path]), [(7, 0, 0, [0, 1])])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
