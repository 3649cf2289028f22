'use strict';
// The button that changes between light and dark, also the pages in frames.
function tellFrame(frame) {
  const {theme} = document.documentElement.dataset;
  if (theme) frame.contentWindow.postMessage({theme}, '*');
}
for (const frame of document.querySelectorAll('iframe')) frame.addEventListener('load', () => tellFrame(frame));
document.getElementById('theme').onclick = () => {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = (root.dataset.theme ?? (dark ? 'dark' : 'light')) === 'dark' ? 'light' : 'dark';
  document.querySelectorAll('iframe').forEach(tellFrame);
};
addEventListener('message', ({data}) => {
  if (['light', 'dark'].includes(data?.theme)) document.documentElement.dataset.theme = data.theme;
});
