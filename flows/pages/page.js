"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // Light and dark. Charts take the page's colours by name, so they follow by themselves.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => {
    button.setAttribute("aria-pressed", String(dark()));
    button.querySelector("span").textContent = dark() ? "Light" : "Dark";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("tercet-theme", root.dataset.theme);
    } catch (error) {
      // Not stored: the choice lasts until the page is closed.
    }
    tell();
  });
  system.addEventListener("change", tell);
  tell();

  // Tabs: one panel at a time; arrow keys move between tabs.
  for (const tabs of document.querySelectorAll(".tabs")) {
    const heads = [...tabs.querySelectorAll('[role="tab"]')];
    const show = (chosen) => {
      for (const head of heads) {
        const is = head === chosen;
        head.setAttribute("aria-selected", String(is));
        head.tabIndex = is ? 0 : -1;
        document.getElementById(head.getAttribute("aria-controls")).hidden = !is;
      }
      dispatchEvent(new Event("resize"));
    };
    heads.forEach((head, place) => {
      head.addEventListener("click", () => show(head));
      head.addEventListener("keydown", (event) => {
        const steps = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: -1 };
        if (!(event.key in steps)) return;
        event.preventDefault();
        const next = heads.at(steps[event.key] % heads.length);
        show(next);
        next.focus();
      });
    });
    show(heads[0]);
  }

  // Highlights the contents entry of the section being read.
  const entries = new Map(
    [...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]),
  );
  const watch = new IntersectionObserver(
    (seen) => {
      for (const one of seen) {
        if (!one.isIntersecting) continue;
        for (const link of entries.values()) link.removeAttribute("aria-current");
        entries.get(one.target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "0px 0px -75% 0px" },
  );
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);

  // In print everything is unfolded.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
  });

  // Charts.
  const ink = "var(--ink)";
  const soft = "var(--soft)";
  const narrow = innerWidth < 560;
  const config = {
    background: "transparent",
    font: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    padding: { left: 2, right: 6, top: 4, bottom: 2 },
    view: { stroke: null },
    title: { color: ink, anchor: "start", fontSize: 13, fontWeight: 600, offset: 8 },
    axis: {
      labelColor: soft, titleColor: soft, gridColor: "var(--grid)", domainColor: "var(--line)",
      tickColor: "var(--line)", labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400,
      titlePadding: 8, labelLimit: narrow ? 145 : 240, tickSize: 4, labelOverlap: true,
    },
    axisX: { labelFlush: false },
    axisY: { domain: false, ticks: false, labelPadding: 8 },
    legend: {
      orient: "top", labelColor: ink, titleColor: soft, labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: 400, symbolSize: 90, symbolStrokeWidth: 2, labelLimit: 170, rowPadding: 4,
      columnPadding: 14, columns: narrow ? 2 : 5, offset: 10,
    },
    range: {
      category: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => `var(--c${n})`),
      ordinal: [1, 2, 3, 4, 5, 6].map((n) => `var(--s${n})`),
    },
    mark: { color: "var(--c1)" },
    bar: { cornerRadiusEnd: 2 },
    point: { filled: true },
    text: { color: ink, fontSize: 12 },
    rule: { color: soft },
    style: {
      threshold: { stroke: "var(--accent)", strokeWidth: 2, strokeDash: [5, 3] },
      zero: { stroke: "var(--line)", strokeWidth: 1 },
      label: { fill: ink, fontSize: 12 },
      quiet: { fill: soft, fontSize: 12 },
    },
  };
  const draw = async (holder) => {
    const spec = JSON.parse(holder.nextElementSibling.textContent);
    try {
      await vegaEmbed(holder, spec, {
        actions: false, ast: true, config, defaultStyle: false, renderer: "svg",
        tooltip: { disableDefaultStyle: true, theme: "report" },
      });
      holder.dataset.state = "drawn";
    } catch (error) {
      holder.dataset.state = "failed";
      holder.textContent = "This chart could not be drawn.";
      console.error(error);
    }
  };
  const holders = [...document.querySelectorAll(".chart")];
  // One after another, with pauses so that the page stays responsive.
  (async () => {
    for (const holder of holders) {
      await draw(holder);
      await new Promise((next) => setTimeout(next));
    }
    root.dataset.charts = "done";
  })();
})();
