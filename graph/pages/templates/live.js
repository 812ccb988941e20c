{
  const at = id => document.getElementById(id), main = at("main"), now = at("now"), lines = [], runs = new Map();
  let wanted = false, fetching = false, ended = now.className === "ended";
  const open = () => new Set([...main.querySelectorAll("details[open]")].map(each => each.querySelector("summary").textContent));
  const show = async () => {
    wanted = true;
    if (fetching) return;
    fetching = true;
    while (wanted) {
      wanted = false;
      try {
        const answer = await fetch("body");
        if (answer.ok) {
          const known = open(), place = scrollY;
          main.innerHTML = await answer.text();
          for (const each of main.querySelectorAll("details"))
            if (known.has(each.querySelector("summary").textContent)) each.open = true;
          scrollTo({top: place, behavior: "instant"});
          if (!ended && Number(answer.headers.get("X-At")) < reached) { wanted = true; await new Promise(done => setTimeout(done, 2000)); }
        }
      } catch { await new Promise(done => setTimeout(done, 2000)); wanted = !ended; }
    }
    fetching = false;
  };
  let reached = Number(now.dataset.at);
  const source = new EventSource("events?from=" + now.dataset.at);
  const live = () => { ended = false; at("state").textContent = now.className = "live"; };
  source.onopen = () => { if (!ended) live(); };
  source.onerror = () => { if (!ended) { at("state").textContent = "connecting"; now.className = ""; } };
  source.addEventListener("now", event => {
    const told = JSON.parse(event.data);
    if (told.run === undefined) { live(); at("doing").textContent = told.text; return; }
    if (told.text) {
      if (!runs.has(told.run)) { const line = document.createElement("li"); at("runs").append(line); runs.set(told.run, line); }
      runs.get(told.run).textContent = told.run + ": " + told.text;
    } else if (runs.has(told.run)) { runs.get(told.run).remove(); runs.delete(told.run); }
  });
  source.addEventListener("step", event => {
    lines.push(JSON.parse(event.data).line);
    at("last").hidden = false;
    at("last").textContent = lines.slice(-4).join("\n");
  });
  source.addEventListener("page", event => { reached = Number(event.lastEventId); show(); });
  source.addEventListener("end", event => {
    ended = true;
    source.close();
    at("state").textContent = "ended";
    now.className = "ended";
    at("doing").textContent = JSON.parse(event.data).text;
    show();
  });
}
