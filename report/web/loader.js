// Unpacks the script of viewers and starts it. A page carries the script and the runs in a compressed form.
window.penstock = {
  unpacked: async text => {
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  },
};
penstock.ready = (async () => {
  if (typeof DecompressionStream === 'undefined') {
    for (const viewer of document.querySelectorAll('.viewer'))
      viewer.prepend('This browser shows only a picture, because it has no DecompressionStream.');
    return [];
  }
  const script = document.createElement('script');
  script.textContent = new TextDecoder().decode(await penstock.unpacked(document.getElementById('viewer-script').textContent));
  document.head.append(script);
  return penstock.start();
})();
