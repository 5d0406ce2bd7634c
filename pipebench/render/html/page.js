
"use strict";
(() => {
  const chapters = [...document.querySelectorAll("details.chapter")];
  const fold = document.getElementById("fold");
  const save = document.getElementById("save");
  const report = document.getElementById("report");

  // Fold and unfold all chapters of the evidence.
  const allOpen = () => chapters.every((one) => one.open);
  const name = () => { fold.textContent = allOpen() ? "Fold all" : "Unfold all"; };
  if (fold) {
    fold.hidden = false;
    fold.addEventListener("click", () => {
      const open = !allOpen();
      for (const one of chapters) one.open = open;
    });
    for (const one of chapters) one.addEventListener("toggle", name);
  }

  // A chapter that an address names is open. Everything is open on paper, and afterwards as it was.
  const named = () => {
    const one = document.getElementById(location.hash.slice(1));
    if (one && one.matches("details")) one.open = true;
  };
  addEventListener("hashchange", named);
  named();
  let before = [];
  addEventListener("beforeprint", () => {
    before = chapters.map((one) => one.open);
    for (const one of chapters) one.open = true;
  });
  addEventListener("afterprint", () => chapters.forEach((one, place) => { one.open = before[place]; }));

  // The report as a file of its own.
  if (!JSON.parse(report.textContent).left_out) {
    save.hidden = false;
    save.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([report.textContent], { type: "application/json" }));
      link.download = `pipebench-${report.dataset.name}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // What a mark of a picture stands for, beside the pointer.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  const titles = new Map();
  for (const title of document.querySelectorAll("svg title")) {
    titles.set(title.parentElement, title.textContent);
    title.textContent = "";
  }
  document.addEventListener("pointermove", (event) => {
    let mark = event.target;
    while (mark instanceof SVGElement && !titles.has(mark)) mark = mark.parentElement;
    const text = titles.get(mark);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(room, event.clientX + 12))}px`;
    tip.style.top = `${event.clientY < 60 ? event.clientY + 20 : event.clientY - tip.offsetHeight - 12}px`;
  });
})();
