// Shows the pictures of the number of ranks that is chosen.
const ranks = document.getElementById('ranks');
function choose() {
  for (const shot of document.querySelectorAll('.shot')) shot.hidden = shot.dataset.ranks !== ranks.value;
  for (const link of document.querySelectorAll('a[href^="compare.html#"]')) {
    link.href = link.getAttribute('href').replace(/\d+$/, ranks.value);
  }
}
ranks.onchange = choose;
choose();  // a browser may keep the choice when the page is loaded anew
