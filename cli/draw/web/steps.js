// Buttons, slider and keys that move between steps. A page defines last(), its number of steps; show(step); forward(then),
// which goes one step on and then calls `then`; and pause(), the milliseconds between two steps of play.
const $ = id => document.getElementById(id);
const item = (name, text) => Object.assign(document.createElement(name), {textContent: text});
let step = 0, playing = false, timer = 0;

function play(on) {
  clearTimeout(timer);
  playing = on && last() > 0;
  $('play').textContent = playing ? '❚❚ Pause' : '▶ Play';
  $('play').setAttribute('aria-label', playing ? 'Pause' : 'Play');
  if (!playing) return;
  if (step === last()) show(0);
  const go = () => playing && (step === last() ? play(false) : forward(() => { timer = setTimeout(go, pause()); }));
  timer = setTimeout(go, 150);
}

const actions = {
  ArrowRight: () => { play(false); forward(); }, ArrowLeft: () => { play(false); show(step - 1); },
  Home: () => { play(false); show(0); }, End: () => { play(false); show(last()); }, ' ': () => play(!playing),
};
let press = key => actions[key]();
$('first').onclick = actions.Home;
$('back').onclick = actions.ArrowLeft;
$('play').onclick = actions[' '];
$('next').onclick = actions.ArrowRight;
$('last').onclick = actions.End;
$('slider').oninput = event => { play(false); show(+event.target.value); };
addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
  if (event.target.closest?.('input, select') || (event.key === ' ' && event.target.closest?.('button'))) return;
  press(event.key);
  event.preventDefault();
});
