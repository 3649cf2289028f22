#!/usr/bin/env python3
"""page_test.py KOLO [FOLDER]: the pages of kolo draw in headless Chromium. With FOLDER, writes screenshots there."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import browser

KOLO = sys.argv[1]
PICTURES = Path(sys.argv[2]) if len(sys.argv) > 2 else None
SKIPPED = 77
DESKTOP, PHONE, NARROW = (1280, 850), (390, 844), (360, 640)

# arguments of kolo draw; steps; complete results at the end
PAGES = {
    "ring": (["ring", "--ranks", "4"], 6, 16),
    "tree": (["binomial", "--collective", "reduce", "--ranks", "8"], 3, 1),
    "star": (["central", "--ranks", "5"], 8, 5),
    "gather": (["ring", "--collective", "all_gather", "--ranks", "4"], 3, 16),
    "exchange": (["direct", "--collective", "all_to_all", "--ranks", "4"], 3, 4),
    "barrier": (["dissemination", "--collective", "barrier", "--ranks", "4"], 2, 4),
    "hosts": (["ring", "--hosts", "3,2,3"], 14, 64),
    "one": (["ring", "--ranks", "1"], 0, 1),
    "trees": (["double_tree", "--ranks", "8"], 21, 64),
    "many": (["ring", "--ranks", "32"], 62, 1024),
}
STEP = "+document.documentElement.dataset.step"
CELLS = "document.querySelector('.cells').innerHTML"
DONE = "[...document.querySelectorAll('.cells .done')].reduce((sum, one) => sum + +one.dataset.cells, 0)"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.files = {}
        for name, (arguments, _, _) in PAGES.items():
            cls.files[name] = f"{cls.folder.name}/{name}.html"
            subprocess.run([KOLO, "draw", *arguments, "-o", cls.files[name]], check=True)
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def open(self, name, size=DESKTOP, dark=False):
        self.browser.problems.clear()
        self.browser.open(self.files[name], *size, dark)
        self.assertEqual(self.browser.problems, [])
        self.assertEqual(self.browser.evaluate(STEP), 0)

    def tearDown(self):
        self.assertEqual(self.browser.problems, [])

    def picture(self, name):
        if PICTURES:
            self.browser.screenshot(PICTURES / f"{name}.png")

    def test_every_page_steps_to_the_end(self):
        for name, (_, steps, results) in PAGES.items():
            with self.subTest(page=name):
                self.open(name)
                page = self.browser
                start, words = page.evaluate(CELLS), page.evaluate("document.getElementById('words').textContent")
                self.assertEqual(page.evaluate("document.querySelectorAll('.card').length"),
                                 page.evaluate("data.ranks"))
                self.assertEqual(page.evaluate("+document.getElementById('slider').max"), steps)
                if steps:
                    self.assertLess(page.evaluate(DONE), results)
                    page.press("ArrowRight")
                    page.wait(f"{STEP} === 1 && flight === 0")
                    self.assertNotEqual(page.evaluate(CELLS), start)
                    self.assertNotEqual(page.evaluate("document.getElementById('words').textContent"), words)
                    self.assertGreater(page.evaluate("document.querySelectorAll('.packet').length"), 0)
                    page.press("ArrowLeft")
                    self.assertEqual(page.evaluate(CELLS), start)
                page.press("End")
                self.assertEqual(page.evaluate(STEP), steps)
                self.assertEqual(page.evaluate(DONE), results)
                self.picture(name)

    def test_the_last_picture_of_the_ring_shows_everybody_in_every_chunk(self):
        self.open("ring")
        self.browser.press("End")
        rectangles = self.browser.evaluate(
            "[...document.querySelectorAll('.cells path')].map(path => path.getAttribute('d').split('M').length - 1)")
        self.assertEqual(rectangles, [16] * 4, "a rectangle for each of 4 ranks x 4 chunks in each of 4 colours")

    def test_buttons_slider_and_play(self):
        self.open("ring")
        page = self.browser
        page.click("#next")
        page.wait(f"{STEP} === 1 && flight === 0")
        page.click("#last")
        self.assertEqual(page.evaluate(STEP), 6)
        page.click("#back")
        self.assertEqual(page.evaluate(STEP), 5)
        page.click("#first")
        self.assertEqual(page.evaluate(STEP), 0)
        page.evaluate("slider.value = 4; slider.dispatchEvent(new Event('input'))")
        self.assertEqual(page.evaluate(STEP), 4)
        page.evaluate("speed.value = 4")
        page.evaluate("document.activeElement.blur()")
        page.press(" ")
        page.wait(f"{STEP} === 6 && !playing")
        self.assertEqual(page.evaluate(DONE), 16)
        page.press("Home")
        self.assertEqual(page.evaluate(STEP), 0)

    def test_a_rank_tells_what_it_holds(self):
        self.open("ring")
        page = self.browser
        page.evaluate("show(3)")
        page.click(".card[data-rank='1']")
        self.assertEqual(page.evaluate("document.getElementById('details-title').textContent"), "Rank 1 holds")
        self.assertIn("the sum of ranks 0 to 3 ✓ complete", page.evaluate("document.getElementById('details').textContent"))
        page.press("Escape")
        self.assertEqual(page.evaluate("document.getElementById('details-title').textContent"), "Messages")
        page.evaluate("document.querySelector(\".card[data-rank='2']\").focus()")
        page.press("Enter")
        self.assertEqual(page.evaluate("document.getElementById('details-title').textContent"), "Rank 2 holds")

    def test_the_address_holds_the_step(self):
        self.open("ring")
        page = self.browser
        page.press("ArrowRight")
        page.wait(f"{STEP} === 1 && flight === 0")
        self.assertEqual(page.evaluate("location.hash"), "#1")
        page.evaluate("location.hash = '#4'")
        page.wait(f"{STEP} === 4")
        page.evaluate("location.hash = '#5'")  # the next step: its messages travel
        page.wait(f"{STEP} === 5 && flight === 0")
        page.evaluate("location.hash = '#nonsense'")
        page.wait(f"{STEP} === 0")

    def test_phases_are_named_and_lead_to_their_first_step(self):
        self.open("ring")
        page = self.browser
        names = "[...document.querySelectorAll('#phases button')].map(button => button.textContent)"
        self.assertEqual(page.evaluate(names), ["reduce-scatter", "all-gather"])
        page.click("#phases li:nth-child(2) button")
        self.assertEqual(page.evaluate(STEP), 4)
        self.assertIn("Step 4 of 6: all-gather, 1 of 3.", page.evaluate("document.getElementById('words').textContent"))
        current = "document.querySelector('#phases [aria-current]').textContent"
        self.assertEqual(page.evaluate(current), "all-gather")
        page.press("ArrowLeft")
        self.assertEqual(page.evaluate(current), "reduce-scatter")

    def test_the_legend_stays_in_its_place_on_a_usual_screen(self):
        page = self.browser
        for name in ("ring", "trees", "many"):
            with self.subTest(page=name):
                self.open(name, (1400, 900))
                places = []
                for key in ("Home", "ArrowRight", "End"):
                    page.press(key)
                    page.wait("flight === 0")
                    places.append(page.evaluate("""(() => {
                        const at = document.getElementById('marks').getBoundingClientRect();
                        return [at.top, at.bottom];
                    })()"""))
                self.assertEqual(places, places[:1] * 3)
                self.assertLess(places[0][1], 900)

    def test_each_tree_has_its_colour(self):
        self.open("trees")
        page = self.browser
        colours = "[0, 1].map(tree => getComputedStyle(document.querySelector(`.tree${tree} .link`)).stroke)"
        first, second = page.evaluate(colours)
        self.assertNotEqual(first, second)
        self.assertEqual(page.evaluate("document.querySelectorAll('#stage .link').length"), 14)

    def test_nothing_is_wider_than_the_screen(self):
        for name in PAGES:
            for size in (DESKTOP, PHONE, NARROW):
                with self.subTest(page=name, width=size[0]):
                    self.open(name, size)
                    self.browser.press("End")
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), size[0])
                    inside = self.browser.evaluate("""[...document.querySelectorAll('.card')].every(card => {
                        const at = card.getBoundingClientRect();
                        return at.left >= 0 && at.right <= innerWidth && at.width > 5;
                    })""")
                    self.assertTrue(inside, "all ranks are on the screen")
                    self.picture(f"{name}-{size[0]}")

    def test_light_and_dark(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        page = self.browser
        self.open("ring")
        light = page.evaluate(colour)
        page.click("#theme")
        dark = page.evaluate(colour)
        self.assertNotEqual(light, dark)
        self.picture("ring-toggled")
        self.open("ring", dark=True)
        self.assertEqual(page.evaluate(colour), dark)
        page.click("#theme")
        self.assertEqual(page.evaluate(colour), light)

    def test_it_needs_nothing_from_elsewhere(self):
        for name, path in self.files.items():
            text = Path(path).read_text(encoding="utf-8")
            for sign in ("src=", "@import", "url(", "fetch("):
                self.assertNotIn(sign, text, name)
            self.assertEqual(text.count("http"), text.count("http://www.w3.org/2000/svg"), name)

    def test_controls_have_names(self):
        self.open("ring")
        nameless = self.browser.evaluate("""[...document.querySelectorAll('button, input, select, [role=button]')]
            .filter(one => !one.getAttribute('aria-label') && !one.closest('label')).length""")
        self.assertEqual(nameless, 0)
        self.assertEqual(self.browser.evaluate("document.getElementById('words').getAttribute('aria-live')"), "polite")


if __name__ == "__main__":
    if not browser.find():
        print("skipped: needs chromium: scripts/install-dependencies --for test")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
