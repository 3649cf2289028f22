// Two pages of algorithms in frames, which follow the step at the end of their addresses.
const list = JSON.parse(document.getElementById('data').textContent);
const sides = [0, 1];
const names = sides.map(side => $(`name${side}`)), pages = sides.map(side => $(`page${side}`));
let steps = 0;

const entryOf = side => list.find(entry => entry.id === names[side].value);
const factsOf = side => entryOf(side).sizes[$('ranks').value];

function fill() {
  const sizes = new Set(list.flatMap(entry => Object.keys(entry.sizes)));
  $('ranks').replaceChildren(...[...sizes].sort((a, b) => a - b).map(size => item('option', size)));
  for (const name of names) {
    for (const collective of new Set(list.map(entry => entry.collective))) {
      const group = Object.assign(document.createElement('optgroup'), {label: collective});
      const entries = list.filter(entry => entry.collective === collective);
      group.append(...entries.map(entry => Object.assign(item('option', `${collective}: ${entry.name}`), {value: entry.id})));
      name.append(group);
    }
  }
}
// #LEFT,RIGHT,RANKS,STEP
function read() {
  const [left, right, ranks, at] = location.hash.slice(1).split(',');
  const known = id => list.some(entry => entry.id === id);
  names[0].value = known(left) ? left : list[0].id;
  names[1].value = known(right) ? right : list[Math.min(1, list.length - 1)].id;
  if ([...$('ranks').options].some(option => option.value === ranks)) $('ranks').value = ranks;
  load();
  show(parseInt(at, 10) || 0);
}
function load() {
  steps = Math.max(...sides.map(side => factsOf(side)?.steps ?? 0));
  $('slider').max = steps;
  for (const side of sides) {
    const entry = entryOf(side), facts = factsOf(side);
    $(`purpose${side}`).textContent = facts ? entry.purpose : `There is no picture of it with ${$('ranks').value} ranks.`;
    const pairs = facts ? [['Steps', facts.steps], ['Busiest rank sends', facts.sends], ['Busiest link', facts.link], ['Phases', facts.phases]] : [];
    $(`facts${side}`).replaceChildren(...pairs.map(([term, text]) => {
      const pair = document.createElement('div');
      pair.append(item('dt', term), item('dd', text));
      return pair;
    }));
    pages[side].hidden = !facts;
    pages[side].title = `${entry.collective}: ${entry.name}`;
  }
}
function show(to) {
  step = Math.max(0, Math.min(steps, to));
  for (const side of sides) {
    const facts = factsOf(side);
    // A frame whose address changes after the # alone keeps its page. `replace` leaves no trail in the history.
    if (facts) pages[side].contentWindow.location.replace(new URL(`${facts.file}#${Math.min(step, facts.steps)}`, location.href));
  }
  $('slider').value = step;
  $('step').textContent = `Step ${step} of ${steps}`;
  $('slider').setAttribute('aria-valuetext', $('step').textContent);
  history.replaceState(null, '', `#${names[0].value},${names[1].value},${$('ranks').value},${step}`);
}
function last() {
  return steps;
}
function forward(then) {
  show(step + 1);
  then?.();
}
function pause() {
  return 1500;
}
function changed() {
  play(false);
  load();
  show(step);
}

for (const select of [...names, $('ranks')]) select.onchange = changed;
addEventListener('message', ({data}) => actions[data?.key]?.());  // of a key pressed in a frame
addEventListener('hashchange', read);
fill();
read();
