// Shows the steps of one algorithm. `data` (written by cli/draw/html.cpp) holds the cells of each rank after each step.
const data = JSON.parse(document.getElementById('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';
const N = data.ranks, PARTS = data.parts, STEPS = data.steps.length - 1;

// cells[step][rank][part] = [sets, done]; the data has only what changes, and fresh keeps that for each step.
const cells = [], fresh = [];
for (const step of data.steps) {
  const now = cells.length ? cells.at(-1).map(rank => rank.slice()) : Array.from({length: N}, () => Array(PARTS).fill([[], false]));
  for (const [rank, part, done, sets] of step.changes) now[rank][part] = [sets, done === 1];
  fresh.push(cells.length ? step.changes : []);
  cells.push(now);
}
const columns = data.slotPerRank ? N : PARTS <= 4 ? PARTS : Math.ceil(Math.sqrt(PARTS));
const rows = data.slotPerRank ? PARTS : Math.ceil(PARTS / columns);
const gridHeight = !data.slotPerRank && PARTS === 1 ? 0.45 : Math.min(1, Math.max(0.28, rows / columns));

let chosen = -1, flight = 0;
let width = 0, height = 0, cards = [], header = 0;

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  parent?.append(element);
  return element;
}
const colourOf = (rank, part) => data.colours[data.colourPerPart ? part : rank];
const box = (x, y, w, h) => `M${x.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(2)}v${h.toFixed(2)}h${(-w).toFixed(2)}z`;

// ---- Where the cards are: as large as they may be without touching.

// Hosts stand side by side; on a screen that is higher than wide, one below the other.
const turned = () => data.boxes.length > 0 && height > width;
const places = () => turned() ? data.places.map(([x, y]) => [y, x]) : data.places;
const boxes = () => turned() ? data.boxes.map(([x0, y0, x1, y1, host]) => [y0, x0, y1, x1, host]) : data.boxes;
function cardsOfWidth(w) {
  const h = w * gridHeight + header, inset = data.boxes.length ? 0 : 1;
  return places().map(([x, y]) => ({x: x * (width - inset * w) - (1 - inset) * w / 2,
                                    y: y * (height - inset * h) - (1 - inset) * h / 2, w, h}));
}
function apart(some) {
  const [across, down] = N > 24 ? [9, 11] : N > 10 ? [18, 34] : width < 500 ? [18, 22] : [34, 34];
  return some.every((a, i) => some.every((b, j) => j >= i || Math.abs(a.x - b.x) >= a.w + across || Math.abs(a.y - b.y) >= a.h + down));
}
const embedded = self !== top;
function stageHeight(wide) {
  if (embedded) return Math.max(200, innerHeight - 126);
  return wide ? Math.max(380, Math.min(width * 0.72, innerHeight - 275)) : Math.min(width * 1.15, Math.max(330, innerHeight - 260));
}
function arrange() {
  const stage = $('stage');
  width = stage.clientWidth || 700;
  height = stageHeight(matchMedia('(min-width: 861px)').matches);
  header = width < 500 ? (N > 12 ? 10 : 13) : N > 24 ? 13 : 17;
  let low = 4, high = Math.min(width / 2.6, height / 3, 170);
  for (let i = 0; i < 20; ++i) {
    const middle = (low + high) / 2;
    if (apart(cardsOfWidth(middle))) low = middle; else high = middle;
  }
  cards = cardsOfWidth(low);
  stage.setAttribute('viewBox', `-2 -2 ${width + 4} ${height + 4}`);  // room for the outermost lines
  stage.style.height = height + 'px';
}

// ---- Cells

// Rows that are large enough are numbered on the left.
const margin = card => data.slotPerRank && PARTS > 1 && (card.h - header) / rows >= 9.5 && card.w > 70 ? 13 : 0;
function cellBox(rank, part) {
  const card = cards[rank], pad = 2, w = card.w - 2 * pad - margin(card), h = card.h - header - 2 * pad;
  const line = data.slotPerRank ? part : Math.floor(part / columns);
  const cellWidth = data.slotPerRank ? w : w / columns, cellHeight = h / rows;
  const gap = Math.min(2, cellHeight / 6);
  const x = card.x + pad + margin(card) + (data.slotPerRank ? 0 : part % columns * cellWidth), y = card.y + header + pad + line * cellHeight;
  return {x, y: y + gap / 2, w: data.slotPerRank ? w : cellWidth - gap, h: cellHeight - gap};
}
// The boxes of the cells that are wanted, [box, how many]. Low rows next to one another have one box, which hides no cell.
function blocks(state, isWanted) {
  const list = [];
  state.forEach((parts, rank) => {
    let open = null;
    parts.forEach((cell, part) => {
      if (!isWanted(cell, rank, part)) return open = null;
      const at = cellBox(rank, part);
      if (open && data.slotPerRank && at.h < 9) {
        open[0].h = at.y + at.h - open[0].y;
        ++open[1];
      } else {
        list.push(open = [at, 1]);
      }
    });
  });
  return list;
}
function drawCells(state, parent) {
  const paths = {}, group = make('g', {class: 'cells'}, parent);
  state.forEach((parts, rank) => parts.forEach(([sets, done], part) => {
    const at = cellBox(rank, part), slot = at.w / N;
    // Values that are not summed yet are drawn apart: side by side, or one above the other if a rank is in several
    // sums.
    const several = sets.length > 1, ranks = sets.flatMap(set => data.sets[set]);
    const stacked = several && new Set(ranks).size < ranks.length, share = stacked ? at.h / sets.length : at.h;
    sets.forEach((set, k) => {
      for (const who of data.sets[set]) {
        const colour = colourOf(who, part), y = at.y + (stacked ? k * share : 0);
        (paths[colour] ??= []).push(data.slotPerRank ? box(at.x + (who + (several ? 0.1 : 0)) * slot, y, slot * (several ? 0.8 : 1), share * (stacked ? 0.85 : 1))
                                                     : box(at.x, at.y, at.w, at.h));
      }
    });
  }));
  for (const [at, count] of blocks(state, ([, done]) => done)) {
    make('rect', {class: 'done', x: at.x, y: at.y, width: at.w, height: at.h, rx: 1, 'stroke-width': Math.min(1.7, at.h * 0.16), 'data-cells': count}, group);
  }
  for (const colour in paths) group.prepend(make('path', {d: paths[colour].join(''), fill: colour}));
}
const treeOf = tree => data.trees.length ? `tree${tree}` : '';
function drawLinks(parent) {
  for (const [one, other, tree] of data.links) {
    const a = centre(cards[one]), b = centre(cards[other]), group = make('g', {class: treeOf(tree)}, parent);
    make('path', {class: 'link', d: `M${a.x} ${a.y}L${b.x} ${b.y}`}, group);
  }
}
function drawCards(parent) {
  for (const [x0, y0, x1, y1, host] of boxes()) {
    make('rect', {class: 'host', x: x0 * width, y: y0 * height, width: (x1 - x0) * width, height: (y1 - y0) * height, rx: 10}, parent);
    make('text', {class: 'quiet on-line', x: x0 * width + 12, y: y0 * height + 4, 'font-size': 12}, parent).textContent = `host ${host}`;
  }
  cards.forEach((card, rank) => {
    const group = make('g', {class: rank === chosen ? 'card chosen' : 'card', tabindex: 0, role: 'button', 'data-rank': rank,
                             'aria-pressed': rank === chosen, 'aria-label': `Rank ${rank}: what it holds`}, parent);
    make('title', {}, group).textContent = `Rank ${rank}`;
    make('rect', {x: card.x, y: card.y, width: card.w, height: card.h, rx: 5}, group);
    const size = Math.min(header * 0.78, 13);
    const label = make('text', {x: card.x + card.w / 2, y: card.y + header * 0.8, 'font-size': size, 'text-anchor': 'middle'}, group);
    const widest = cards.length > 10 ? 56 : 46;  // of 'rank 0' and 'rank 15'
    label.textContent = (card.w > widest ? 'rank ' : '') + rank + (rank === data.root && card.w > 80 ? ' (root)' : '');
    if (!data.colourPerPart && card.w > 76) {
      make('circle', {cx: card.x + 8, cy: card.y + header / 2, r: 4, fill: data.colours[rank]}, group);
    }
    for (let part = 0; margin(card) && part < PARTS; ++part) {
      const at = cellBox(rank, part);
      make('text', {class: 'quiet', x: at.x - 3, y: at.y + at.h / 2 + 3.2, 'font-size': Math.min(10, at.h), 'text-anchor': 'end'}, group).textContent = part;
    }
  });
}

// ---- Messages

function edge(card, to) {
  const x = card.x + card.w / 2, y = card.y + card.h / 2, dx = to.x - x, dy = to.y - y;
  const share = Math.min(1, dx ? card.w / 2 / Math.abs(dx) : 1, dy ? card.h / 2 / Math.abs(dy) : 1);
  return {x: x + share * dx, y: y + share * dy};
}
const centre = card => ({x: card.x + card.w / 2, y: card.y + card.h / 2});
// Through the middle of the card; a corner does not matter.
function crosses(card, a, b) {
  for (let i = 1; i < 40; ++i) {
    const x = a.x + (b.x - a.x) * i / 40 - card.x, y = a.y + (b.y - a.y) * i / 40 - card.y;
    if (x > card.w / 4 && x < card.w * 3 / 4 && y > card.h / 4 && y < card.h * 3 / 4) return true;
  }
  return false;
}
// From edge to edge, shifted a little to the right, so that the message in the other direction has its own line. Bent
// if a card is in the way: a quadratic curve with the control point (cx, cy). (ux, uy): the direction of its head.
function wire([from, to]) {
  const a = centre(cards[from]), b = centre(cards[to]), length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  let ux = (b.x - a.x) / length, uy = (b.y - a.y) / length;
  if (N <= 32 && cards.some((card, rank) => rank !== from && rank !== to && crosses(card, a, b))) {
    const out = Math.abs(uy) * cards[from].w + Math.abs(ux) * cards[from].h + 28;  // a curve comes half as far
    let c = {x: (a.x + b.x) / 2 - uy * out, y: (a.y + b.y) / 2 + ux * out};
    const top = {x: (a.x + b.x) / 2 - uy * out / 2, y: (a.y + b.y) / 2 + ux * out / 2};
    if (Math.min(top.x, top.y - 16) < 0 || top.x > width || top.y > height) {  // bend to the other side
      c = {x: (a.x + b.x) / 2 + uy * (out + 26), y: (a.y + b.y) / 2 - ux * (out + 26)};
    }
    const tail = edge(cards[from], c), head = edge(cards[to], c), last = Math.hypot(head.x - c.x, head.y - c.y) || 1;
    ux = (head.x - c.x) / last;
    uy = (head.y - c.y) / last;
    return {x0: tail.x, y0: tail.y, cx: c.x, cy: c.y, x1: head.x - ux * 2, y1: head.y - uy * 2, ux, uy};
  }
  const aside = N > 24 ? 2 : 4, tail = edge(cards[from], b), head = edge(cards[to], a);
  const x0 = tail.x - uy * aside, y0 = tail.y + ux * aside, x1 = head.x - uy * aside - ux * 2, y1 = head.y + ux * aside - uy * 2;
  return {x0, y0, cx: (x0 + x1) / 2, cy: (y0 + y1) / 2, x1, y1, ux, uy};
}
const between = (from, by, to, share) => (1 - share) ** 2 * from + 2 * share * (1 - share) * by + share ** 2 * to;
// "3", "0-2", "0..": the chunks of a message.
function chunkLabel(message) {
  if (data.barrier || PARTS === 1) return '';
  const parts = [...new Set(message[3].filter((_, i) => i % 2 === 0))].sort((a, b) => a - b);
  const together = parts.at(-1) - parts[0] === parts.length - 1;
  if (parts.length === 1) return `${parts[0]}`;
  return together ? `${parts[0]}–${parts.at(-1)}` : `${parts[0]}, …`;
}
const treeOfMessage = message => treeOf(data.trees[message[3][0]]);
function drawArrows(at, parent) {
  const messages = data.steps[at].messages, tip = isSmall(messages) ? 5 : 8;
  for (const message of messages) {
    const w = wire(message), bx = w.x1 - w.ux * tip, by = w.y1 - w.uy * tip, group = make('g', {class: treeOfMessage(message), 'aria-hidden': true}, parent);
    make('path', {class: message[2] ? 'arrow' : 'arrow stores', d: `M${w.x0} ${w.y0}Q${w.cx} ${w.cy} ${bx} ${by}`}, group);
    make('path', {class: 'tip', d: `M${w.x1} ${w.y1}L${bx - w.uy * tip / 2} ${by + w.ux * tip / 2}L${bx + w.uy * tip / 2} ${by - w.ux * tip / 2}z`}, group);
  }
}
const isSmall = messages => N > 24 || messages.length > 40;
// What a message carries, on its way. Returns functions that move each packet: from 0, its sender, to 1. Without a
// share, the packet rests where it covers least.
function drawPackets(at, parent) {
  const messages = data.steps[at].messages, small = isSmall(messages), packets = [], taken = cards.slice();
  if (messages.length > 70) return packets;
  const size = small ? (N > 24 ? 0.3 : 0.5) : Math.min(N > 10 ? 0.75 : 1, width / 620), pw = 34 * size, ph = 11 * size;
  const pairs = new Set(messages.map(([from, to]) => from * N + to));
  for (const message of messages) {
    const w = wire(message), packet = make('g', {class: 'packet', 'aria-hidden': true}, parent), values = message[3];
    const label = N > 24 ? '' : chunkLabel(message), over = label ? 12 * size + 2 : 0;
    make('rect', {x: -pw / 2 - 1, y: -ph / 2 - 1, width: pw + 2, height: ph + 2, rx: 2}, packet);
    const set = values.length ? data.sets[values[1]] : [];
    if (data.slotPerRank) {
      for (const who of set) make('path', {d: box(-pw / 2 + who * pw / N, -ph / 2, pw / N, ph), fill: data.colours[who]}, packet);
    } else {
      const count = values.length / 2;
      for (let i = 0; i < count; ++i) {
        make('path', {d: box(-pw / 2 + i * pw / count, -ph / 2, pw / count, ph), fill: colourOf(data.sets[values[2 * i + 1]][0], values[2 * i])}, packet);
      }
    }
    make('text', {y: -ph / 2 - 3, 'font-size': 12 * Math.max(size, 0.75), 'text-anchor': 'middle'}, packet).textContent = label;
    // Beside the packet of the opposite message.
    const aside = pairs.has(message[1] * N + message[0]) ? 1 : 0, ax = -w.uy * aside * (pw / 2 - 1), ay = w.ux * aside * (ph + over) / 2;
    const point = share => ({x: between(w.x0, w.cx, w.x1, share) + ax, y: between(w.y0, w.cy, w.y1, share) + ay});
    const covers = ({x, y}) => taken.reduce((sum, o) => sum +
        Math.max(0, Math.min(x + pw / 2, o.x + o.w) - Math.max(x - pw / 2, o.x)) * Math.max(0, Math.min(y + ph / 2, o.y + o.h) - Math.max(y - ph / 2 - over, o.y)), 0);
    packets.push(share => {
      let place = point(share ?? 0.5);
      if (share === undefined) {
        for (const other of [0.4, 0.6, 0.3, 0.7, 0.2, 0.8]) {
          if (covers(point(other)) < covers(place)) place = point(other);
        }
        taken.push({x: place.x - pw / 2, y: place.y - ph / 2 - over, w: pw, h: ph + over});
      }
      packet.setAttribute('transform', `translate(${place.x} ${place.y})`);
    });
  }
  return packets;
}

// ---- The whole page for one step. `before`: its messages are in flight, and the cells are as after the step before.

function draw(before) {
  const stage = $('stage'), focused = document.activeElement?.closest?.('.card')?.dataset.rank;
  stage.replaceChildren();
  drawLinks(stage);
  drawArrows(step, stage);  // below the cards: no arrow crosses a cell or a label
  drawCards(stage);
  drawCells(cells[before ? step - 1 : step], stage);
  if (!before) {
    const isFresh = new Set(fresh[step].map(([rank, part]) => rank * PARTS + part));
    for (const [at] of blocks(cells[step], ([sets], rank, part) => sets.length && isFresh.has(rank * PARTS + part))) {
      const out = at.h > 5 ? 1 : 0;
      make('rect', {class: 'fresh', x: at.x - out, y: at.y - out, width: at.w + 2 * out, height: at.h + 2 * out, rx: 2, 'stroke-width': at.h > 9 ? 2 : 1}, stage);
    }
  }
  const packets = drawPackets(step, stage);
  for (const move of packets) move(before ? 0 : undefined);
  if (focused !== undefined) stage.querySelector(`.card[data-rank="${focused}"]`)?.focus();
  return packets;
}
function tell() {
  document.documentElement.dataset.step = step;
  const {title, words, moved: [sent, received, link]} = data.steps[step], heading = document.createElement('b');
  heading.textContent = `${title}.`;
  $('words').replaceChildren(heading, words);
  $('slider').value = step;
  $('slider').setAttribute('aria-valuetext', title);
  [...$('phases').children].forEach((item, i) => {
    const {begin, end} = data.phases[i], button = item.firstChild;
    if (step >= begin && step < end) button.setAttribute('aria-current', 'step'); else button.removeAttribute('aria-current');
  });
  const [allSent, allReceived, allLink] = data.steps[STEPS].moved;
  const [leastSteps, leastMoved] = data.least;
  const ofWhole = chunks => +(chunks / PARTS).toPrecision(4);
  $('meters').replaceChildren(meter('Steps', step, STEPS, steps => steps, '', leastSteps));
  if (!data.barrier) {
    const remark = document.createElement('p');
    remark.className = 'remark';
    remark.textContent = 'n: the bytes of the whole data. Black mark: no algorithm can do with less.';
    $('meters').append(meter('Busiest rank sends', sent, allSent, ofWhole, ' n', 0),
                       meter('Busiest rank, in or out', Math.max(sent, received), Math.max(allSent, allReceived), ofWhole, ' n', leastMoved * PARTS),
                       meter('Busiest link carries', link, allLink, ofWhole, ' n', 0), remark);
  }
  details();
}
function meter(name, value, all, number, unit, least) {
  const most = Math.max(all, least) || 1, element = document.createElement('div');
  element.className = 'meter';
  element.innerHTML = '<div><span></span><b></b></div><div class="track"><i></i></div>';
  element.querySelector('span').textContent = name;
  element.querySelector('b').textContent = `${number(value)} of ${number(all)}${unit}`;
  element.querySelector('i').style.width = `${100 * value / most}%`;
  if (least) {
    const mark = document.createElement('s');
    mark.style.left = `${100 * least / most}%`;
    mark.title = `No algorithm can do with less than ${number(least)}${unit}`;
    element.querySelector('.track').append(mark);
  }
  return element;
}
function details() {
  const lines = [];
  if (chosen >= 0) {
    $('details-title').textContent = `Rank ${chosen} holds`;
    cells[step][chosen].forEach(([sets, done], part) => {
      const what = sets.map(set => data.names[set]).join('; and ') || 'nothing';
      const sum = data.summing && sets.some(set => data.sets[set].length > 1) ? 'the sum of ' : data.barrier ? 'has heard of ' : 'data of ';
      lines.push(`${PARTS > 1 ? `chunk ${part}: ` : ''}${sets.length ? sum : ''}${what}${done ? ' ✓ complete' : ''}`);
    });
  } else {
    $('details-title').textContent = 'Messages';
    for (const message of data.steps[step].messages) {
      const label = chunkLabel(message);
      lines.push(`${message[0]} → ${message[1]}${label ? `: chunk${/^\d+$/.test(label) ? '' : 's'} ${label}` : ''}${message[2] ? ', added' : ''}${message[4] ? ` (${message[4]})` : ''}`);
    }
    if (!lines.length) lines.push(STEPS ? 'None yet. Tap a rank to see what it holds.' : 'There are none: one rank has everything.');
  }
  $('details').replaceChildren(...lines.map(line => Object.assign(document.createElement('li'), {textContent: line})));
}

// ---- Moving between steps

function show(to) {
  cancelAnimationFrame(flight);
  flight = 0;
  step = Math.max(0, Math.min(STEPS, to));
  if (location.hash !== `#${step}`) history.replaceState(null, '', `#${step}`);
  draw(false);
  tell();
}
// Animates the messages of the next step, then shows the step.
function forward(then) {
  if (flight) show(step);  // a second request skips the animation
  if (step === STEPS) return;
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) {
    show(step + 1);
    then?.();
    return;
  }
  ++step;
  tell();
  const packets = draw(true), begin = performance.now(), time = 800 / $('speed').value;
  const fly = now => {
    const share = Math.min(1, Math.max(0, (now - begin) / time));
    for (const move of packets) move(share * share * (3 - 2 * share));
    if (share < 1) {
      flight = requestAnimationFrame(fly);
    } else {
      show(step);
      then?.();
    }
  };
  flight = requestAnimationFrame(fly);
}
function last() {
  return STEPS;
}
function pause() {
  return 700 / $('speed').value;
}
function choose(rank) {
  chosen = rank === chosen ? -1 : rank;
  show(step);
}

actions.Escape = () => choose(-1);
if (embedded) press = key => parent.postMessage({key}, '*');  // both pages step together
$('slider').max = STEPS;
$('stage').addEventListener('keydown', event => {
  const card = event.target.closest('.card');
  if (!card || event.ctrlKey || event.metaKey || event.altKey || (event.key !== 'Enter' && event.key !== ' ')) return;
  choose(+card.dataset.rank);
  event.preventDefault();
  event.stopPropagation();
});
$('stage').addEventListener('click', event => {
  const card = event.target.closest('.card');
  if (card) choose(+card.dataset.rank); else if (chosen >= 0) choose(-1);
});
// page.html#5 opens at step 5, and goes there when the address changes. The page that compares steps its pages this way.
function follow() {
  const to = parseInt(location.hash.slice(1), 10) || 0;
  if (to === step) return;
  play(false);
  if (to === step + 1) forward(); else show(to);
}
addEventListener('hashchange', follow);

// ---- What does not change

function swatch(colour) {
  const square = document.createElement('i');
  square.style.background = colour;
  return square;
}
document.documentElement.classList.toggle('embedded', embedded);
$('purpose').textContent = data.purpose;
$('explain').textContent = data.explain;
const noun = data.colourPerPart ? 'chunk' : 'rank';
if (data.colours.length > 16) {
  const line = Object.assign(item('li', ''), {className: 'many'});
  line.append(item('span', `${noun} 0`), ...data.colours.map(swatch), item('span', data.colours.length - 1));
  $('legend').replaceChildren(line);
} else {
  $('legend').replaceChildren(...data.colours.map((colour, i) => {
    const line = item('li', '');
    line.append(swatch(colour), `${noun} ${i}`);
    return line;
  }));
}
if (data.trees.length) {
  for (const tree of [0, 1]) {
    const line = item('li', ''), svg = make('svg', {viewBox: '0 0 34 12', class: `tree${tree}`, 'aria-hidden': true}, line);
    make('path', {class: 'arrow', d: 'M1 6H26'}, svg);
    make('path', {class: 'tip', d: 'M26 2l7 4l-7 4z'}, svg);
    line.append(tree ? 'second tree' : 'first tree');
    $('marks').append(line);
  }
}
$('phases').replaceChildren(...data.phases.map(({name, meaning, begin, end}) => {
  const line = item('li', ''), button = item('button', name), steps = end - begin === 1 ? `step ${begin}` : `steps ${begin} to ${end - 1}`;
  button.type = 'button';
  button.title = `${name}, ${steps}. ${meaning}`;
  button.setAttribute('aria-label', `To the phase ${name}, ${steps}`);
  button.onclick = () => { play(false); show(begin); };
  line.style.flexGrow = end - begin;
  line.append(button);
  return line;
}));
$('about').replaceChildren(...data.about.flatMap(([term, text]) => [item('dt', term), item('dd', text[0].toUpperCase() + text.slice(1))]));
addEventListener('resize', () => { arrange(); show(step); });
arrange();
show(parseInt(location.hash.slice(1), 10) || 0);
