// SPDX-License-Identifier: MIT
/* The timeline's input: pointer, wheel, touch, keyboard; what is under the pointer, what is chosen. */
const tip = byId("tip");

function rowAt(y) {
	const at = y + byId("scroll").scrollTop;
	return rows.find((row) => at >= row.top && at < row.top + row.height) || null;
}

/* The waits of a thread under the pointer, the longest first. */
function waitsAt(row, x, width) {
	const slack = 2 / scale(width), time = timeAt(x, width);
	return waitsOfThread[row.index].filter((index) => page.waits[index][WAIT.begin] <= time + slack && waitEnd(page.waits[index]) >= time - slack)
		.sort((a, b) => waitPasses(page.waits[b]) - waitPasses(page.waits[a]) || page.waits[b][WAIT.call] - page.waits[a][WAIT.call]);
}

function waitLines(wait) {
	const group = page.groups[wait[WAIT.group]];
	const waited = wait[WAIT.target] >= 0 ? page.targets[wait[WAIT.target]] : [];
	const lines = [`${group.rule}: ${group.function}`, `blocked ${duration(wait[WAIT.blocked])} of ${duration(wait[WAIT.call])}, ${CLASSES[group.class]}`,
		`at ${siteLabel(group)}`];
	for (const [stream, text, certain] of waited.slice(0, 3))
		lines.push(`${certain ? "waited for" : "may have waited for"} ${page.texts[text]} on ${streamLabel(stream)}`);
	if (waited.length > 3) lines.push(`and ${waited.length - 3} more`);
	return lines;
}

/* Where the data have no single waits, but the sums have some. */
function tintLines(index, time) {
	const bin = Math.floor(time / page.bin_ns), thread = page.threads[index];
	let sum = 0;
	for (const bins of [thread[2], thread[3]])
		for (let i = 0; i < bins.length; i += 2) if (bins[i] === bin) sum += bins[i + 1];
	if (!sum || !(page.left_out.implicit + page.left_out.explicit)) return null;
	return ["Short waits, not drawn one by one", `${duration(sum)} of ${duration(page.bin_ns)} in calls that waited`];
}

function linesAt(x, y, width) {
	const row = rowAt(y);
	if (!row || x < gutter()) return row && row.kind !== "process" ? [row.label] : null;
	if (row.kind === "thread") {
		const found = waitsAt(row, x, width);
		if (!found.length) return tintLines(row.index, timeAt(x, width));
		const lines = waitLines(page.waits[found[0]]);
		if (found.length > 1) lines.push(`${found.length - 1} more here: zoom in`);
		return lines;
	}
	if (row.kind !== "stream") return null;
	const slack = 2 / scale(width), time = timeAt(x, width);
	const running = operationsOfStream[row.index].filter((operation) => operation.begin <= time + slack && operation.end >= time - slack);
	const lines = running.slice(0, 4).map((operation) =>
		`${page.texts[operation.text]}: submitted ${duration(operation.begin)}, known complete ${duration(operation.end)}`);
	if (running.length > 4) lines.push(`${running.length - 4} more in flight`);
	for (const busy of running.length ? [] : busyOfStream[row.index]) {
		const wait = page.waits[busy.wait];
		if (lines.length < 4 && wait[WAIT.begin] <= time + slack && waitEnd(wait) >= time - slack)
			lines.push(`${page.texts[busy.text]}: not known complete while ${page.groups[wait[WAIT.group]].function} waited`);
	}
	return lines.length ? [row.label, ...lines] : null;
}

function showTip(event, lines) {
	tip.hidden = !lines;
	if (!lines) return;
	tip.replaceChildren(...lines.map((line) => element("p", {}, line)));
	const box = tip.getBoundingClientRect();
	const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
	const top = event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
	tip.style.transform = `translate(${Math.max(left, 8)}px, ${Math.max(top, 8)}px)`;
}

function detailPairs(pairs) {
	const list = element("dl", {class: "pairs"});
	for (const [name, value] of pairs)
		if (value !== null && value !== "") list.append(element("dt", {}, name), element("dd", {}, value));
	return list;
}

/* The chosen wait in words, below the timeline. */
function describe(index) {
	const details = byId("details"), wait = page.waits[index];
	if (!wait) {
		details.replaceChildren();
		return;
	}
	const group = page.groups[wait[WAIT.group]], thread = page.threads[wait[WAIT.thread]];
	const waited = wait[WAIT.target] >= 0 ? page.targets[wait[WAIT.target]] : [];
	details.replaceChildren(
		element("div", {class: "head"}, element("strong", {}, group.rule), element("span", {class: `tag ${group.class}`}, CLASSES[group.class]),
			element("span", {}, `blocked ${duration(wait[WAIT.blocked])} of ${duration(wait[WAIT.call])} in ${group.function}`)),
		detailPairs([["Cause", group.cause], ["When", `${duration(wait[WAIT.begin])} after the beginning`],
			["Where", `${threadLabel(thread)} of ${processLabel(thread[0])}`],
			["Call site", element("button", {type: "button", class: "link", onclick: () => openSite(wait[WAIT.group])}, siteLabel(group))],
			["Bytes", wait[WAIT.bytes] ? `${bytes(wait[WAIT.bytes])}, ${group.from} to ${group.to}` : null],
			["Waited for", waited.length ? element("span", {}, ...waited.map(([stream, text, certain]) => element("span", {},
				`${page.texts[text]} on ${streamLabel(stream)}${certain ? "" : " (not known complete)"}`, element("br")))) : "nothing known"],
			["Region", group.region]]));
}

function choose(index, isMoving) {
	const wait = page.waits[index];
	view.selected = wait ? index : -1;
	describe(index);
	if (wait && isMoving) {
		const row = rows.find((one) => one.kind === "thread" && one.index === wait[WAIT.thread]), scroll = byId("scroll");
		const length = view.end - view.begin, begin = wait[WAIT.begin], end = waitEnd(wait);
		if (begin < view.begin || end > view.end || wait[WAIT.call] < length / 200)
			show((begin + end) / 2 - Math.max(wait[WAIT.call] * 4, length / 40), (begin + end) / 2 + Math.max(wait[WAIT.call] * 4, length / 40));
		if (row && (row.top < scroll.scrollTop || row.top + row.height > scroll.scrollTop + scroll.clientHeight)) scroll.scrollTop = row.top - 40;
	}
	redraw();
}

/* The next wait that passes the filter, or the one before. */
function step(direction) {
	const list = waitsByTime.filter((index) => waitPasses(page.waits[index]));
	const at = list.indexOf(view.selected);
	if (!list.length) return;
	choose(list[at < 0 ? (direction > 0 ? 0 : list.length - 1) : (at + direction + list.length) % list.length], true);
}

const pointers = new Map();
let dragged = 0;

function onDown(event) {
	canvases.rows.setPointerCapture(event.pointerId);
	pointers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
	dragged = 0;
	showTip(event, null);
}

function onMove(event) {
	const width = canvases.rows.clientWidth, last = pointers.get(event.pointerId);
	if (!last) {
		showTip(event, linesAt(event.offsetX, event.offsetY, width));
		return;
	}
	if (pointers.size === 2) {
		const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
		const before = Math.abs(last.x - other.x), after = Math.abs(event.offsetX - other.x);
		if (before > 8 && after > 8) zoom(before / after, timeAt((event.offsetX + other.x) / 2, width));
	} else {
		const moved = (last.x - event.offsetX) / scale(width);
		show(view.begin + moved, view.end + moved);
	}
	dragged += Math.abs(event.offsetX - last.x) + Math.abs(event.offsetY - last.y);
	pointers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
}

function onUp(event) {
	const row = rowAt(event.offsetY);
	if (!pointers.delete(event.pointerId) || event.type === "pointercancel" || dragged > 5) return;
	if (row && row.kind === "thread" && event.offsetX >= gutter()) {
		const found = waitsAt(row, event.offsetX, canvases.rows.clientWidth);
		choose(found.length ? found[0] : -1, false);
	}
}

function onWheel(event) {
	const width = canvases.rows.clientWidth, factor = event.deltaMode ? 30 : 1;
	if (event.ctrlKey || event.metaKey) {
		event.preventDefault();
		zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * factor / 240))), timeAt(event.offsetX, width));
	} else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
		event.preventDefault();
		const moved = (event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) * factor / scale(width);
		show(view.begin + moved, view.end + moved);
	}
}

function onKey(event) {
	const length = view.end - view.begin;
	const actions = {
		ArrowLeft: () => show(view.begin - length / 8, view.end - length / 8),
		ArrowRight: () => show(view.begin + length / 8, view.end + length / 8),
		ArrowUp: () => { byId("scroll").scrollTop -= 60; },
		ArrowDown: () => { byId("scroll").scrollTop += 60; },
		"+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), 0: () => show(0, LENGTH), Home: () => show(0, LENGTH),
		n: () => step(1), p: () => step(-1), Escape: () => choose(-1, false),
		Enter: () => { if (page.waits[view.selected]) openSite(page.waits[view.selected][WAIT.group]); },
	};
	const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
	if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
	event.preventDefault();
	action();
}

/* A drag over the overview chooses what is shown; a click moves it there. */
let overviewFrom = null;
function overviewTime(event) {
	const width = canvases.overview.clientWidth;
	return Math.min(Math.max((event.offsetX - gutter()) / (width - gutter()), 0), 1) * LENGTH;
}
function onOverview(event) {
	const time = overviewTime(event), length = view.end - view.begin;
	if (event.type === "pointerdown") {
		canvases.overview.setPointerCapture(event.pointerId);
		overviewFrom = time;
	} else if (overviewFrom !== null) {
		const isDrag = Math.abs(time - overviewFrom) > LENGTH / 200;
		if (isDrag) show(Math.min(time, overviewFrom), Math.max(time, overviewFrom));
		else if (event.type === "pointerup") show(time - length / 2, time + length / 2);
		if (event.type !== "pointermove") overviewFrom = null;
	}
}

function listenToTimeline() {
	const canvas = canvases.rows;
	canvas.addEventListener("pointerdown", onDown);
	canvas.addEventListener("pointermove", onMove);
	canvas.addEventListener("pointerup", onUp);
	canvas.addEventListener("pointercancel", onUp);
	canvas.addEventListener("pointerleave", (event) => showTip(event, null));
	canvas.addEventListener("dblclick", (event) => zoom(.4, timeAt(event.offsetX, canvas.clientWidth)));
	canvas.addEventListener("wheel", onWheel, {passive: false});
	canvas.addEventListener("keydown", onKey);
	for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) canvases.overview.addEventListener(name, onOverview);
	byId("scroll").addEventListener("scroll", redraw, {passive: true});
	byId("zoom-in").addEventListener("click", () => zoom(.5));
	byId("zoom-out").addEventListener("click", () => zoom(2));
	byId("fit").addEventListener("click", () => show(0, LENGTH));
	byId("next").addEventListener("click", () => step(1));
	byId("previous").addEventListener("click", () => step(-1));
	new ResizeObserver(redraw).observe(byId("scroll"));
}
