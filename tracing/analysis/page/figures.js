// SPDX-License-Identifier: MIT
/* Figures and elements. Text of the program only ever becomes text nodes. */
const byId = (id) => document.getElementById(id);

/* element("p", {class: "hint"}, "text", child): attributes are ours, never the program's. */
function element(tag, attributes, ...children) {
	const made = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {})) {
		if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
		else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
	}
	made.append(...children.filter((child) => child !== null && child !== undefined));
	return made;
}

/* A square of a colour of the style sheet. */
function swatch(variable) {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
	svg.setAttribute("viewBox", "0 0 10 10");
	svg.setAttribute("aria-hidden", "true");
	for (const [name, value] of [["width", 10], ["height", 10], ["rx", 2.5]]) rect.setAttribute(name, value);
	rect.style.fill = `var(${variable})`;
	svg.append(rect);
	return svg;
}

function threeDigits(value) {
	if (value >= 100) return value.toFixed(0);
	return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/* 1234567 -> "1.23 ms", as the text report has it. */
function duration(ns) {
	if (ns < 0) return "-" + duration(-ns);
	if (ns < 1000) return Math.round(ns) + " ns";
	for (const [unit, size] of [["\u00b5s", 1e3], ["ms", 1e6], ["s", 1e9]])
		if (ns < 999.5 * size || unit === "s") return threeDigits(ns / size) + " " + unit;
	return "";
}

function bytes(count) {
	if (count < 1024) return count + " B";
	let value = count, unit = 0;
	while (value >= 1023.5 && unit < 6) { value /= 1024; unit++; }
	return threeDigits(value) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
}

const count = (value) => value.toLocaleString("en-US");
const plural = (value, word) => count(value) + " " + word + (value === 1 ? "" : "s");
const share = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "-");
