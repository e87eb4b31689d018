"use strict";
// Keeps the page up to date without a reload: it fetches the page again and changes
// what differs, in place, so that focus, selection and scrolling stay. Without this
// script the page is whole; it then shows the moment at which it was read.
(() => {
  const period = 5000;
  const patience = 10000;
  const main = document.getElementById("main");
  const bar = document.getElementById("live");
  const state = document.getElementById("live-state");
  const button = document.getElementById("live-button");
  let paused = false;

  // say changes the state for screen readers only when it is another.
  function say(text) {
    if (state.textContent !== text) state.textContent = text;
  }

  async function update() {
    const answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(patience) });
    if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) {
      location.reload(); // the login is over: the server says what comes now
      return;
    }
    if (!answer.ok) throw new Error("status " + answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement;
    if (paused) return;
    change(main, next.getElementById("main"));
    document.title = next.title;
    if (document.activeElement !== focused) {
      // Its row moved, or is gone.
      (focused.isConnected ? focused : main).focus({ preventScroll: true });
    }
    say("This page keeps itself up to date.");
  }

  // change makes a node like another one. Children with an ID are known by it, others by
  // their place.
  function change(node, like) {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.nodeValue !== like.nodeValue) node.nodeValue = like.nodeValue;
      return;
    }
    for (const { name } of [...node.attributes]) if (!like.hasAttribute(name)) node.removeAttribute(name);
    for (const { name, value } of like.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);

    const known = new Map([...node.children].filter((child) => child.id).map((child) => [child.id, child]));
    const wanted = new Set([...like.children].map((child) => child.id));
    for (const [id, child] of known) if (!wanted.has(id)) child.remove();

    let at = node.firstChild;
    for (const next of like.childNodes) {
      const same = next.id ? known.get(next.id) : at && !at.id && at.nodeName === next.nodeName ? at : undefined;
      if (!same) {
        node.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (same === at) at = at.nextSibling;
      else node.insertBefore(same, at);
      change(same, next);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  async function turn() {
    if (!paused && !document.hidden) {
      try {
        await update();
      } catch {
        say("Not up to date: the hub does not answer. It is asked again every few seconds.");
      }
    }
    setTimeout(turn, period);
  }

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
    say(paused ? "Updates are paused." : "This page keeps itself up to date.");
  });
  bar.hidden = false;
  setTimeout(turn, period);
})();
