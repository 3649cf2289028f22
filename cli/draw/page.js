'use strict';
// Shows the steps of one algorithm. `data` (written by cli/draw/html.cpp) holds the cells of each rank after each step.
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
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

let step = 0, chosen = -1, playing = false, flight = 0, timer = 0;
let width = 0, height = 0, cards = [], header = 0;

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.append(element);
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
  const [across, down] = N > 24 ? [6, 9] : N > 10 ? [11, 24] : width < 500 ? [18, 22] : [34, 34];
  return some.every((a, i) => some.every((b, j) => j >= i || Math.abs(a.x - b.x) >= a.w + across || Math.abs(a.y - b.y) >= a.h + down));
}
function arrange() {
  const stage = $('stage'), wide = matchMedia('(min-width: 861px)').matches;
  width = stage.clientWidth || 700;
  height = wide ? Math.max(380, Math.min(width * 0.72, innerHeight - 250)) : Math.min(width * 1.15, Math.max(330, innerHeight - 260));
  header = width < 500 ? (N > 12 ? 10 : 13) : N > 24 ? 12 : 17;
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
    if (done) make('rect', {class: 'done', x: at.x, y: at.y, width: at.w, height: at.h, rx: 1, 'stroke-width': Math.min(1.7, at.h * 0.16)}, group);
  }));
  for (const colour in paths) group.prepend(make('path', {d: paths[colour].join(''), fill: colour}));
}
function drawCards(parent) {
  for (const [x0, y0, x1, y1, host] of boxes()) {
    make('rect', {class: 'host', x: x0 * width, y: y0 * height, width: (x1 - x0) * width, height: (y1 - y0) * height, rx: 10}, parent);
    make('text', {class: 'quiet on-line', x: x0 * width + 12, y: y0 * height + 4, 'font-size': 12}, parent).textContent = `host ${host}`;
  }
  for (const [one, other] of data.links) {
    const a = centre(cards[one]), b = centre(cards[other]);
    make('path', {class: 'link', d: `M${a.x} ${a.y}L${b.x} ${b.y}`}, parent);
  }
  cards.forEach((card, rank) => {
    const group = make('g', {class: rank === chosen ? 'card chosen' : 'card', tabindex: 0, role: 'button', 'data-rank': rank,
                             'aria-pressed': rank === chosen, 'aria-label': `Rank ${rank}: what it holds`}, parent);
    make('rect', {x: card.x, y: card.y, width: card.w, height: card.h, rx: 5}, group);
    const size = Math.min(header * 0.76, 13);
    const label = make('text', {x: card.x + card.w / 2, y: card.y + header * 0.8, 'font-size': size, 'text-anchor': 'middle'}, group);
    label.textContent = (card.w > 46 ? 'rank ' : '') + rank + (rank === data.root && card.w > 80 ? ' (root)' : '');
    if (!data.colourPerPart && card.w > 60) {
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
    if (Math.min(top.x, top.y) < 0 || top.x > width || top.y > height) {  // bend to the other side
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
function drawMessages(at, parent) {
  const messages = data.steps[at].messages, group = make('g', {'aria-hidden': 'true'}, parent), packets = [];
  const small = N > 24 || messages.length > 40, tip = small ? 5 : 8;
  for (const message of messages) {
    const w = wire(message);
    const bx = w.x1 - w.ux * tip, by = w.y1 - w.uy * tip;
    make('path', {class: message[2] ? 'arrow' : 'arrow stores', d: `M${w.x0} ${w.y0}Q${w.cx} ${w.cy} ${bx} ${by}`}, group);
    make('path', {class: 'tip', d: `M${w.x1} ${w.y1}L${bx - w.uy * tip / 2} ${by + w.ux * tip / 2}L${bx + w.uy * tip / 2} ${by - w.ux * tip / 2}z`}, group);
  }
  if (messages.length > 70) return packets;
  const size = small ? (width < 500 ? 0.4 : 0.6) : Math.min(1, width / 620);
  for (const message of messages) {
    const w = wire(message), packet = make('g', {class: 'packet'}, group);
    const pw = 34 * size, ph = 11 * size, values = message[3];
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
    make('text', {y: -ph / 2 - 3, 'font-size': 12 * Math.max(size, 0.75), 'text-anchor': 'middle'}, packet).textContent = chunkLabel(message);
    packets.push(share => packet.setAttribute('transform', `translate(${between(w.x0, w.cx, w.x1, share)} ${between(w.y0, w.cy, w.y1, share)})`));
  }
  return packets;
}

// ---- The whole page for one step. `before`: its messages are in flight, and the cells are as after the step before.

function draw(before) {
  const stage = $('stage'), focused = document.activeElement?.closest?.('.card')?.dataset.rank;
  stage.replaceChildren();
  drawCards(stage);
  drawCells(cells[before ? step - 1 : step], stage);
  if (!before) {
    for (const [rank, part] of fresh[step]) {
      const at = cellBox(rank, part);
      if (at.h > 3) make('rect', {class: 'fresh', x: at.x - 1, y: at.y - 1, width: at.w + 2, height: at.h + 2, rx: 2}, stage);
    }
  }
  const packets = drawMessages(step, stage);
  for (const move of packets) move(before ? 0 : 0.4);
  if (focused !== undefined) stage.querySelector(`.card[data-rank="${focused}"]`)?.focus();
  return packets;
}
function tell() {
  document.documentElement.dataset.step = step;
  const name = document.createElement('b');
  name.textContent = step ? `Step ${step} of ${STEPS}` : 'Start';
  $('words').replaceChildren(name, data.steps[step].words);
  $('slider').value = step;
  $('slider').setAttribute('aria-valuetext', name.textContent);
  const [sent, received, link] = data.steps[step].moved;
  const [allSent, allReceived, allLink] = data.steps[STEPS].moved;
  const is = data.atMost ? '≤' : '=';
  const whole = chunks => `${+(chunks / PARTS).toPrecision(4)} K`;
  const bytes = data.barrier ? [] : [
    meter('Busiest rank sends', sent, allSent, whole, 0, `closed form ${data.sentForm} ${is} ${whole(data.stated[1])}`),
    meter('Busiest rank, in or out', Math.max(sent, received), Math.max(allSent, allReceived), whole, data.least.through * PARTS,
          `at least ${data.least.throughForm} = ${whole(data.least.through * PARTS)}`),
    meter('Busiest link carries', link, allLink, whole, 0, 'from one rank to one other; K: the whole data')];
  $('meters').replaceChildren(
    meter('Steps', step, STEPS, String, data.least.steps, `closed form ${data.stepsForm} ${is} ${data.stated[0]}; at least ceil(log2 N) = ${data.least.steps}`), ...bytes);
  details();
}
function meter(name, value, all, text, least, remark) {
  const most = Math.max(all, least) || 1, element = document.createElement('div');
  element.className = 'meter';
  element.innerHTML = '<div><span></span><b></b></div><div class="track"><i></i></div><small></small>';
  element.querySelector('span').textContent = name;
  element.querySelector('b').textContent = `${text(value)} of ${text(all)}`;
  element.querySelector('i').style.width = `${100 * value / most}%`;
  element.querySelector('small').textContent = remark;
  if (least) {
    const mark = document.createElement('s');
    mark.style.left = `${100 * least / most}%`;
    mark.title = 'the least that any algorithm needs';
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
      lines.push(`${message[0]} → ${message[1]}${label ? `: chunk${/^\d+$/.test(label) ? '' : 's'} ${label}` : ''}${message[2] ? ', added' : ''}`);
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
  draw(false);
  tell();
}
// Animates the messages of the next step, then shows the step.
function advance(then) {
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
function play(on) {
  clearTimeout(timer);
  playing = on && STEPS > 0;
  $('play').textContent = playing ? '❚❚ Pause' : '▶ Play';
  $('play').setAttribute('aria-label', playing ? 'Pause' : 'Play');
  if (!playing) return;
  if (step === STEPS) show(0);
  const go = () => playing && (step === STEPS ? play(false) : advance(() => { timer = setTimeout(go, 700 / $('speed').value); }));
  timer = setTimeout(go, 150);
}
function choose(rank) {
  chosen = rank === chosen ? -1 : rank;
  show(step);
}

const actions = {
  ArrowRight: () => { play(false); advance(); }, ArrowLeft: () => { play(false); show(step - 1); },
  Home: () => { play(false); show(0); }, End: () => { play(false); show(STEPS); }, ' ': () => play(!playing),
  Escape: () => choose(-1),
};
$('first').onclick = actions.Home;
$('back').onclick = actions.ArrowLeft;
$('play').onclick = actions[' '];
$('next').onclick = actions.ArrowRight;
$('last').onclick = actions.End;
$('slider').max = STEPS;
$('slider').oninput = event => { play(false); show(+event.target.value); };
addEventListener('keydown', event => {
  const card = event.target.closest?.('.card');
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (card && (event.key === 'Enter' || event.key === ' ')) {
    choose(+card.dataset.rank);
  } else if (!actions[event.key] || event.target.closest?.('input, select') || (event.key === ' ' && event.target.closest?.('button'))) {
    return;
  } else {
    actions[event.key]();
  }
  event.preventDefault();
});
$('stage').addEventListener('click', event => {
  const card = event.target.closest('.card');
  if (card) choose(+card.dataset.rank); else if (chosen >= 0) choose(-1);
});
$('theme').onclick = () => {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = (root.dataset.theme ?? (dark ? 'dark' : 'light')) === 'dark' ? 'light' : 'dark';
};

// ---- What does not change

$('purpose').textContent = data.purpose;
$('explain').textContent = data.explain;
$('legend').replaceChildren(...data.colours.map((colour, i) => {
  const item = document.createElement('li'), swatch = document.createElement('i');
  swatch.style.background = colour;
  item.append(swatch, `${data.colourPerPart ? 'chunk' : 'rank'} ${i}`);
  return item;
}));
$('about').replaceChildren(...data.about.flatMap(([term, text]) => [
  Object.assign(document.createElement('dt'), {textContent: term}), Object.assign(document.createElement('dd'), {textContent: text})]));
addEventListener('resize', () => { arrange(); show(step); });
arrange();
show(parseInt(location.hash.slice(1), 10) || 0);  // page.html#5 opens at step 5
