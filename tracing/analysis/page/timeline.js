// SPDX-License-Identifier: MIT
/* The timeline's pictures: overview, axis, rows. Where waits are denser than pixels, the longest of a pixel shows. */
const view = {begin: 0, end: LENGTH, selected: -1, hover: null};
const canvases = {overview: byId("overview"), axis: byId("axis"), rows: byId("rows")};
let colours = {};

function readColours() {
	const style = getComputedStyle(document.documentElement);
	const names = ["panel", "raised", "text", "muted", "line", "grid", "row", "busy", "accent", "shade", "implicit", "rule-other", "rule-explicit", "rule-device",
		...Array.from({length: 8}, (_, index) => `rule-${index}`)];
	colours = Object.fromEntries(names.map((name) => [`--${name}`, style.getPropertyValue(`--${name}`).trim()]));
}

const gutter = () => (narrow.matches ? 0 : 220);

/* A context in CSS pixels, cleared. */
function prepare(canvas, height) {
	const ratio = Math.min(window.devicePixelRatio || 1, 3);
	const width = canvas.clientWidth;
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
	}
	const context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, width, height);
	context.font = "12px " + getComputedStyle(document.body).fontFamily;
	context.textBaseline = "middle";
	return {context, width, height};
}

/* Black or white, whichever reads better on a colour #rrggbb. */
function textOn(colour) {
	const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
	return .2126 * red + .7152 * green + .0722 * blue > .2 ? "#101418" : "#ffffff";
}

function fitText(context, text, width) {
	if (width < 12) return "";
	if (context.measureText(text).width <= width) return text;
	let length = Math.min(text.length, Math.ceil(width / 3));
	while (length > 0 && context.measureText(text.slice(0, length) + "\u2026").width > width) length--;
	return length > 1 ? text.slice(0, length) + "\u2026" : "";
}

const scale = (width) => (width - gutter()) / (view.end - view.begin);
const xOf = (time, width) => gutter() + (time - view.begin) * scale(width);
const timeAt = (x, width) => view.begin + (x - gutter()) / scale(width);

function drawOverview() {
	const {context, width, height} = prepare(canvases.overview, 44);
	const left = gutter(), size = (width - left) / LENGTH;
	const sums = [[], []];
	let highest = 0;
	for (const thread of page.threads) {
		if (filter.process >= 0 && thread[0] !== filter.process) continue;
		for (let which = 0; which < 2; which++)
			for (let i = 0; i < thread[2 + which].length; i += 2) {
				const bin = thread[2 + which][i];
				sums[which][bin] = (sums[which][bin] || 0) + thread[2 + which][i + 1];
			}
	}
	const bins = Math.ceil(LENGTH / page.bin_ns);
	for (let bin = 0; bin < bins; bin++) highest = Math.max(highest, (sums[0][bin] || 0) + (sums[1][bin] || 0));
	for (let bin = 0; bin < bins && highest; bin++) {
		const x = Math.floor(left + bin * page.bin_ns * size), wide = Math.max(Math.ceil(left + (bin + 1) * page.bin_ns * size) - x, 1);
		const explicit = (sums[1][bin] || 0) / highest * (height - 8), implicit = (sums[0][bin] || 0) / highest * (height - 8);
		context.fillStyle = colours["--rule-explicit"];
		context.fillRect(x, height - explicit, wide, explicit);
		context.fillStyle = colours["--rule-0"];
		context.fillRect(x, height - explicit - implicit, wide, implicit);
	}
	const from = left + view.begin * size, to = left + view.end * size;
	context.fillStyle = colours["--shade"];
	context.fillRect(from, 0, Math.max(to - from, 2), height);
	context.strokeStyle = colours["--accent"];
	context.strokeRect(Math.floor(from) + .5, .5, Math.max(Math.floor(to - from) - 1, 2), height - 1);
	if (left) {
		context.fillStyle = colours["--muted"];
		context.fillText("All threads, whole run", 16, height / 2);
	}
}

/* Distance of the ticks: 1, 2 or 5 times a power of ten, at least `least` pixels. */
function tickOf(width, least) {
	const wanted = least / scale(width);
	const power = 10 ** Math.floor(Math.log10(wanted));
	return Math.max([1, 2, 5, 10].find((factor) => factor * power >= wanted) * power, 1);
}

/* In the unit of what is shown, with the decimals of the ticks. */
function tickLabel(time, tick) {
	const length = view.end - view.begin;
	const [unit, size] = length >= 2e9 ? ["s", 1e9] : length >= 2e6 ? ["ms", 1e6] : length >= 2e3 ? ["\u00b5s", 1e3] : ["ns", 1];
	const digits = Math.max(0, Math.ceil(-Math.log10(tick / size) - 1e-9));
	return (time / size).toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits}) + " " + unit;
}

function eachTick(width, take) {
	const tick = tickOf(width, 110);
	for (let time = Math.ceil(view.begin / tick) * tick; time <= view.end; time += tick) take(time, xOf(time, width), tick);
}

function drawAxis() {
	const {context, width, height} = prepare(canvases.axis, 26);
	context.fillStyle = colours["--muted"];
	if (gutter()) context.fillText(duration(view.end - view.begin) + " shown", 16, height / 2);
	eachTick(width, (time, x, tick) => {
		context.fillRect(Math.round(x), height - 5, 1, 5);
		const label = tickLabel(time, tick), wide = context.measureText(label).width;
		const at = Math.max(x - wide / 2, gutter() + 4);
		if (at + wide <= width) context.fillText(label, at, height / 2 - 1);
	});
}

/* The first index of a list sorted by begin whose begin is not below `time`. */
function lowerBound(list, time, beginOf) {
	let low = 0, high = list.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (beginOf(list[middle]) < time) low = middle + 1;
		else high = middle;
	}
	return low;
}

function barOf(row) {
	const label = narrow.matches ? 15 : 0;
	return {top: row.top + 4 + label, height: row.height - 8 - label};
}

function paintBox(context, x, wide, top, height, label) {
	context.fillRect(x, top, Math.max(wide, 1), height);
	if (wide > 44 && height >= 12 && label) {
		const shown = fitText(context, label, wide - 10);
		context.fillStyle = textOn(context.fillStyle);
		context.globalAlpha = 1;
		if (shown) context.fillText(shown, x + 5, top + height / 2 + .5);
	}
}

/* Waits left out of the data still show as a tint, from the bins. */
function drawBins(context, width, row, top) {
	const thread = page.threads[row.index], bar = barOf(row);
	if (!page.left_out.implicit && !page.left_out.explicit) return;
	for (const [which, colour] of [[2, "--rule-0"], [3, "--rule-explicit"]]) {
		context.fillStyle = colours[colour];
		for (let i = 0; i < thread[which].length; i += 2) {
			const x = Math.round(xOf(thread[which][i] * page.bin_ns, width)), wide = Math.round(xOf((thread[which][i] + 1) * page.bin_ns, width)) - x;
			context.globalAlpha = .22 + .5 * Math.min(thread[which][i + 1] / page.bin_ns, 1);
			if (x + wide >= gutter() && x <= width) context.fillRect(x, bar.top - top, Math.max(wide, 1), bar.height);
		}
	}
	context.globalAlpha = 1;
}

function drawThread(context, width, row, top) {
	const bar = barOf(row), pixels = scale(width);
	let pixel = -1, longest = 0;
	drawBins(context, width, row, top);
	for (const index of waitsOfThread[row.index]) {
		const wait = page.waits[index], end = waitEnd(wait);
		if (end < view.begin || wait[WAIT.begin] > view.end) continue;
		const x = Math.max(xOf(wait[WAIT.begin], width), gutter() - 2), wide = Math.min(xOf(end, width), width + 2) - x;
		const passes = waitPasses(wait);
		if (wide < 1) { /* dense: one bar a pixel, of the longest */
			if (Math.floor(x) === pixel && wait[WAIT.call] <= longest && index !== view.selected) continue;
			longest = Math.floor(x) === pixel ? Math.max(longest, wait[WAIT.call]) : wait[WAIT.call];
			pixel = Math.floor(x);
		}
		const group = page.groups[wait[WAIT.group]];
		context.globalAlpha = passes ? 1 : .14;
		context.fillStyle = colours[colourOf(group)];
		paintBox(context, x, wide - (wide > 3 ? .5 : 0), bar.top - top, bar.height, passes ? group.rule : "");
		if (passes && wait[WAIT.blocked] && wait[WAIT.blocked] < wait[WAIT.call] && wide > 6) { /* the part that was no waiting */
			const own = (wait[WAIT.call] - wait[WAIT.blocked]) * pixels;
			context.globalAlpha = .35;
			context.fillStyle = colours["--panel"];
			if (own > 1) context.fillRect(Math.max(xOf(end, width) - own, x), bar.top - top, Math.min(own, wide), bar.height);
		}
	}
	context.globalAlpha = 1;
}

function drawOperations(context, width, row, top) {
	const bar = barOf(row), high = bar.height / lanesOfStream[row.index];
	for (const operation of operationsOfStream[row.index]) {
		if (operation.end < view.begin || operation.begin > view.end) continue;
		const x = Math.max(xOf(operation.begin, width), gutter() - 2), wide = Math.min(xOf(operation.end, width), width + 2) - x;
		context.globalAlpha = .85;
		context.fillStyle = colours["--busy"];
		paintBox(context, x, Math.max(wide - .5, .75), bar.top - top + operation.lane * high, high - 1, page.texts[operation.text]);
	}
	context.globalAlpha = 1;
}

function drawBusy(context, width, row, top) {
	const bar = barOf(row);
	const full = operationsOfStream[row.index].length > 0;
	for (const busy of busyOfStream[row.index]) {
		const wait = page.waits[busy.wait], end = waitEnd(wait);
		if (end < view.begin || wait[WAIT.begin] > view.end) continue;
		if (full && busy.wait !== view.selected) continue;
		const x = Math.max(xOf(wait[WAIT.begin], width), gutter() - 2), wide = Math.min(xOf(end, width), width + 2) - x;
		context.globalAlpha = waitPasses(wait) ? (busy.wait === view.selected ? .9 : .55) : .1;
		context.fillStyle = colours[full ? "--shade" : "--busy"];
		paintBox(context, x, wide, bar.top - top, bar.height, full ? "" : page.texts[busy.text]);
	}
	context.globalAlpha = 1;
}

function drawLabel(context, row, top, width) {
	const isProcess = row.kind === "process";
	const left = isProcess ? 16 : 28, room = narrow.matches || isProcess ? width - left - 8 : gutter() - left - 8;
	context.fillStyle = isProcess ? colours["--text"] : colours["--muted"];
	context.save();
	if (isProcess) context.font = "600 " + context.font;
	else if (narrow.matches) context.font = context.font.replace("12px", "11px");
	context.fillText(fitText(context, row.label, room), left, narrow.matches && !isProcess ? row.top - top + 10 : row.top - top + row.height / 2);
	context.restore();
}

/* Lines from the chosen wait to the streams it waited for. */
function drawLinks(context, width, top) {
	const wait = page.waits[view.selected];
	if (!wait) return;
	const from = rows.find((row) => row.kind === "thread" && row.index === wait[WAIT.thread]);
	const target = wait[WAIT.target];
	if (!from) return;
	const bar = barOf(from), x = xOf(wait[WAIT.begin], width), end = xOf(waitEnd(wait), width);
	context.strokeStyle = colours["--text"];
	context.lineWidth = 2;
	context.strokeRect(Math.max(x, gutter()) - 1, bar.top - top - 1, Math.max(Math.min(end, width) - Math.max(x, gutter()), 1) + 2, bar.height + 2);
	context.lineWidth = 1.5;
	context.setLineDash([4, 3]);
	for (const [stream] of target >= 0 ? page.targets[target] : []) {
		const to = rows.find((row) => row.kind === "stream" && row.index === stream);
		if (!to) continue;
		const middle = Math.min(Math.max((Math.max(x, gutter()) + Math.min(end, width)) / 2, gutter()), width), below = to.top > from.top;
		const y = barOf(from).top - top + (below ? bar.height : 0), goal = barOf(to).top - top + (below ? 0 : barOf(to).height);
		context.beginPath();
		context.moveTo(middle, y);
		context.lineTo(middle, goal);
		context.stroke();
	}
	context.setLineDash([]);
}

function drawRows() {
	const scroll = byId("scroll"), top = scroll.scrollTop;
	const {context, width, height} = prepare(canvases.rows, Math.max(Math.min(rowsHeight, scroll.clientHeight || 400), 40));
	canvases.rows.style.height = height + "px";
	const visible = rows.filter((row) => row.top + row.height > top && row.top < top + height);
	for (const row of visible) {
		context.fillStyle = row.kind === "process" ? colours["--raised"] : colours["--panel"];
		context.fillRect(0, row.top - top, width, row.height);
		context.fillStyle = colours["--grid"];
		context.fillRect(0, row.top - top + row.height - 1, width, 1);
	}
	context.fillStyle = colours["--grid"];
	eachTick(width, (time, x) => { if (x >= gutter()) context.fillRect(Math.round(x), 0, 1, height); });
	context.save();
	context.beginPath();
	context.rect(gutter(), 0, width - gutter(), height);
	context.clip();
	for (const row of visible) {
		if (row.kind === "thread") drawThread(context, width, row, top);
		if (row.kind === "stream") {
			drawOperations(context, width, row, top);
			drawBusy(context, width, row, top);
		}
	}
	drawLinks(context, width, top);
	context.restore();
	for (const row of visible) drawLabel(context, row, top, width);
	if (!rows.length) {
		context.fillStyle = colours["--muted"];
		context.fillText("No thread waited.", 16, 20);
	}
}

function drawAll() {
	byId("spacer").style.height = Math.max(rowsHeight, 40) + "px";
	drawOverview();
	drawAxis();
	drawRows();
	Object.assign(canvases.rows.dataset, {begin: view.begin, end: view.end, selected: view.selected});
}

let drawPending = false;
function redraw() {
	if (drawPending) return;
	drawPending = true;
	requestAnimationFrame(() => { drawPending = false; drawAll(); });
}

/* Moves the view to [begin, end], kept inside the run and not below 100 ns. */
function show(begin, end) {
	const length = Math.min(Math.max(end - begin, 100), LENGTH);
	view.begin = Math.min(Math.max(begin, 0), LENGTH - length);
	view.end = view.begin + length;
	redraw();
}

function zoom(factor, around) {
	const centre = around === undefined ? (view.begin + view.end) / 2 : around;
	show(centre - (centre - view.begin) * factor, centre + (view.end - centre) * factor);
}
