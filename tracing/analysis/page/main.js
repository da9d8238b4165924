// SPDX-License-Identifier: MIT
/* Head figures, filters, legend, footer; puts the page together. */
function card(kind, label, value, sub) {
	return element("div", {class: `card ${kind}`}, element("div", {class: "label"}, label), element("div", {class: "value"}, value), element("div", {class: "sub"}, sub));
}

/* The share of the run only where there is one process: of several, waits overlap. */
function waitsText(sum) {
	if (!sum.count) return "no wait";
	const isOne = filter.process >= 0 || page.processes.length === 1;
	return `${isOne ? share(sum.blocked, page.run_ns) + " of the run, " : ""}${plural(sum.count, "wait")}, longest ${duration(sum.longest)}`;
}

function drawCards() {
	const sums = totals(), lost = page.discarded;
	const processes = filter.process >= 0 ? 1 : page.processes.length;
	const cards = [
		card(sums.implicit.count ? "implicit" : "good", "Blocked without asking", duration(sums.implicit.blocked), waitsText(sums.implicit)),
		card("explicit", "Blocked on request", duration(sums.explicit.blocked), waitsText(sums.explicit)),
	];
	if (sums.own.count) cards.push(card("", "Slow calls", duration(sums.own.blocked), `${plural(sums.own.count, "call")} whose own work took long`));
	if (sums.allowed.count) cards.push(card("", "In allowed scopes", duration(sums.allowed.blocked), waitsText(sums.allowed)));
	if (sums.device.count) cards.push(card("device", "Device serialized", count(sums.device.count), sums.device.count === 1 ? "time" : "times"));
	if (sums.unknown.count) cards.push(card("warn", "Rule not known", duration(sums.unknown.blocked), waitsText(sums.unknown)));
	cards.push(card("", "Run", duration(page.run_ns), `${processes === 1 ? "1 process" : count(processes) + " processes"}, ${
		plural(page.threads.filter((thread) => filter.process < 0 || thread[0] === filter.process).length, "thread")} that waited`));
	cards.push(card(lost ? "warn" : "good", "Lost events", count(lost), `of ${count(page.events + lost)}`));
	byId("cards").replaceChildren(...cards);
}

function option(value, text) {
	return element("option", {value}, text);
}

function fillFilters() {
	const rules = [...new Set(page.groups.map((group) => group.rule))].sort();
	const classes = [...new Set(page.groups.map((group) => group.class))].sort();
	byId("filter-process").replaceChildren(option(-1, "all"), ...processOrder.map((index) => option(index, processLabel(index))));
	byId("filter-class").replaceChildren(option("", "all"), ...classes.map((name) => option(name, CLASSES[name] || name)));
	byId("filter-rule").replaceChildren(option("", "all"), ...rules.map((rule) => option(rule, rule)));
	fillStreams();
}

function fillStreams() {
	const streams = page.streams.map((_, index) => index).filter((index) => filter.process < 0 || page.streams[index][0] === filter.process);
	byId("filter-stream").replaceChildren(option(-1, "all"), ...streams.map((index) => option(index,
		streamLabel(index) + (filter.process < 0 && page.processes.length > 1 ? ` of pid ${page.processes[page.streams[index][0]].pid}` : ""))));
	byId("filter-stream").value = String(filter.stream);
}

function readFilter(event) {
	const process = Number(byId("filter-process").value);
	const isOther = process !== filter.process;
	filter = {process, stream: isOther ? -1 : Number(byId("filter-stream").value), class: byId("filter-class").value,
		rule: byId("filter-rule").value, text: byId("filter-text").value};
	if (isOther || event === "reset") fillStreams();
	drawFiltered();
}

function drawFiltered() {
	applyFilter();
	layRows();
	drawCards();
	drawTable();
	redraw();
}

function drawLegend() {
	const items = [...ruleColours].slice(0, 8).map(([rule, colour]) => [colour, rule]);
	const classes = new Set(page.groups.map((group) => group.class));
	if (ruleColours.size > 8) items.push(["--rule-other", "other rules"]);
	if (classes.has("explicit")) items.push(["--rule-explicit", "asked for"]);
	if (classes.has("device")) items.push(["--rule-device", "device serialized"]);
	if (page.operations.length) items.push(["--busy", "operation, from submission to known complete"]);
	else if (busyOfStream.some((list) => list.length)) items.push(["--busy", "not known complete"]);
	byId("legend").replaceChildren(...items.map(([colour, text]) => element("li", {}, swatch(colour), text)));
}

function drawHeading() {
	const first = page.processes[processOrder[0]], hosts = new Set(page.processes.map((process) => process.host).filter(Boolean));
	const names = [...new Set(page.processes.map((process) => process.name))];
	const name = names.length ? names.slice(0, 3).join(", ") + (names.length > 3 ? ", \u2026" : "") : "No process";
	byId("name").textContent = `${name}: where the host waited`;
	document.title = `${name} - slipstream`;
	const commands = new Set(page.processes.map((process) => process.command));
	byId("command").textContent = first && first.command ? first.command + (commands.size > 1 ? ` (and ${plural(commands.size - 1, "other")})` : "") : "";
	const facts = [page.processes.length === 1 ? "1 process" : count(page.processes.length) + " processes"];
	if (page.processes.length === 1 && first.pid) facts[0] += ` (pid ${first.pid})`;
	if (hosts.size) facts.push(hosts.size === 1 ? `host ${[...hosts][0]}` : `${count(hosts.size)} hosts`);
	if (first && first.driver) facts.push(`driver for CUDA ${Math.floor(first.driver / 1000)}.${Math.floor(first.driver % 1000 / 10)}`);
	facts.push(`${count(page.events)} events`);
	byId("facts").textContent = facts.join(" \u00b7 ");
}

function drawDoubt() {
	byId("doubt").hidden = !page.reasons.length;
	byId("reasons").replaceChildren(...page.reasons.map((reason) => element("li", {}, reason)));
}

/* What the page does not hold, so that nobody takes it for all there was. */
function drawNotes() {
	const left = page.left_out, notes = [], singles = left.implicit + left.explicit;
	if (singles) notes.push(`The timeline has the ${count(page.waits.length)} longest of ${count(page.waits_all)} waits one by one; the others show as a tint.`);
	if (left.operations) notes.push(`${count(left.operations)} operations are not drawn.`);
	if (left.streams) notes.push("There are more streams than rows.");
	byId("footer").replaceChildren(...notes.map((note) => element("p", {}, note)),
		element("p", {}, `Blocked time is the time in the call less the time it takes when nothing is pending. Written by ${page.producer}.`));
	byId("table-note").textContent = left.row_waits
		? `${count(left.row_waits)} more waits (${duration(left.row_blocked_ns)}) are in lines too small for this page.` : "";
}

function changeTheme() {
	const root = document.documentElement;
	const isDark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
	root.dataset.theme = isDark ? "light" : "dark";
	readColours();
	redraw();
}

function listen() {
	const form = byId("filters");
	form.addEventListener("change", readFilter);
	form.addEventListener("input", readFilter);
	form.addEventListener("submit", (event) => event.preventDefault());
	form.addEventListener("reset", () => setTimeout(() => readFilter("reset")));
	byId("by-rule").addEventListener("click", () => rankBy(false));
	byId("by-site").addEventListener("click", () => rankBy(true));
	byId("theme").addEventListener("click", changeTheme);
	window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
	narrow.addEventListener("change", () => { layRows(); redraw(); });
	listenToTimeline();
}

readColours();
drawHeading();
drawDoubt();
fillFilters();
drawLegend();
drawNotes();
listen();
if (page.savings) ranked.sort = "saving";
drawFiltered();
