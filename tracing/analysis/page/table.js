// SPDX-License-Identifier: MIT
/* The ranking: one table by rule or by call site, sortable, whose rows open to causes, stacks and what was waited for. */
/* At first by class, what nobody asked for before the rest, then by blocked time; a click on a column sorts by that alone. */
const ranked = {bySite: false, sort: null, descending: true, open: new Set(), limit: 50};

const COLUMNS = [
	{id: "name", title: "Rule", words: true, value: (entry) => (ranked.bySite ? siteLabel(entry.group) : entry.group.rule)},
	{id: "class", title: "Class", words: true, extra: true, value: (entry) => entry.group.class},
	{id: "count", title: "Waits", value: (entry) => entry.sum.count, show: (entry) => count(entry.sum.count)},
	{id: "blocked", title: "Blocked", value: (entry) => entry.sum.blocked, show: (entry) => duration(entry.sum.blocked)},
	{id: "share", title: "Of all blocked", extra: true, value: (entry) => entry.sum.blocked, show: (entry, all) => share(entry.sum.blocked, all)},
	{id: "longest", title: "Longest", extra: true, value: (entry) => entry.sum.longest, show: (entry) => duration(entry.sum.longest)},
	{id: "bytes", title: "Bytes", extra: true, value: (entry) => entry.sum.bytes, show: (entry) => (entry.sum.bytes ? bytes(entry.sum.bytes) : "-")},
	{id: "saving", title: "Run shorter by", value: (entry) => (entry.saving ? entry.saving.middle : -1),
		show: (entry) => (entry.saving ? savingText(entry.saving) : "-")},
];

function savingText({low, high}) {
	return low === high ? duration(low) : `${duration(low)} to ${duration(high)}`;
}

const CLASS_ORDER = ["implicit", "unknown", "explicit", "device"];
/* On a narrow page there is room for two figures beside the name. */
COLUMNS.find((column) => column.id === "count").extra = Boolean(page.savings);
const columns = () => COLUMNS.filter((column) => column.id !== "saving" || page.savings);

function frameItem(frame, isPython) {
	const name = frame.function || (frame.module ? frame.module.split("/").pop() + " + " + frame.offset : frame.offset || "?");
	const where = frame.file ? frame.file + (frame.line ? ":" + frame.line : "") : frame.module || "";
	return element("li", isPython ? {class: "python"} : {}, element("b", {}, name), frame.inlined ? " (inlined)" : "",
		element("span", {class: "where"}, where));
}

/* Below main() or a thread's function every stack is the same. */
const START_CODE = new Set(["__libc_start_call_main", "__libc_start_main_impl", "__libc_start_main", "_start", "start_thread", "clone", "clone3", "__clone3"]);

function stackList(site) {
	if (!site) return element("p", {class: "under"}, "No call site was taken.");
	let shown = site.frames.length;
	while (shown > 1 && START_CODE.has(site.frames[shown - 1].function)) shown--;
	const hidden = site.frames.length - shown;
	return element("ol", {class: "stack"}, ...site.python.map((frame) => frameItem(frame, true)),
		...site.frames.slice(0, shown).map((frame) => frameItem(frame, false)),
		hidden ? element("li", {class: "where"}, `(${plural(hidden, "frame")} of start code left out)`) : null);
}

function section(title, ...children) {
	return element("section", {}, element("h3", {}, title), ...children);
}

function sumBy(entry, keyOf) {
	const sums = new Map();
	for (const row of page.rows) {
		if (!entry.sum.groups.has(row[ROW.group]) || !rowPasses(row)) continue;
		const key = keyOf(page.groups[row[ROW.group]], row);
		if (key === null) continue;
		if (!sums.has(key)) sums.set(key, emptySum());
		addTo(sums.get(key), row);
	}
	return [...sums].sort((a, b) => b[1].blocked - a[1].blocked || b[1].count - a[1].count);
}

function figureList(sums, labelOf) {
	return element("ul", {class: "plain"}, ...sums.slice(0, 12).map(([key, sum]) => element("li", {}, labelOf(key), " ",
		element("span", {class: "figure"}, `${duration(sum.blocked)} in ${plural(sum.count, "wait")}`))),
		sums.length > 12 ? element("li", {class: "figure"}, `and ${sums.length - 12} more`) : null);
}

function waitedList(entry) {
	const sums = new Map();
	for (const [group, process, target, waits, blocked] of page.waited) {
		if (!entry.sum.groups.has(group) || (filter.process >= 0 && filter.process !== process)) continue;
		for (const [stream, text, certain] of page.targets[target]) {
			const label = `${page.texts[text]} on ${streamLabel(stream)}` + (certain ? " (was unfinished)" : "");
			const sum = sums.get(label) || emptySum();
			sum.count += waits;
			sum.blocked += blocked;
			sums.set(label, sum);
		}
	}
	return sums.size ? section("May have waited for", figureList([...sums].sort((a, b) => b[1].blocked - a[1].blocked), (label) => label)) : null;
}

function sitesSection(entry) {
	const sites = sumBy(entry, (group) => (group.site === null ? -1 : group.site));
	if (ranked.bySite || sites.length === 1) return section("Call stack", stackList(page.sites[sites[0][0]]));
	return section("Call sites", element("ul", {class: "plain"}, ...sites.slice(0, 12).map(([site, sum]) => element("li", {},
		element("button", {type: "button", class: "link", onclick: () => openEntry(entry, site)}, site < 0 ? "call site not known" : page.sites[site].label), " ",
		element("span", {class: "figure"}, `${duration(sum.blocked)} in ${plural(sum.count, "wait")}`))),
		sites.length > 12 ? element("li", {class: "figure"}, `and ${sites.length - 12} more`) : null));
}

function moreRow(entry, id) {
	const kinds = sumBy(entry, (group) => (group.from && group.from !== "none" ? `${group.from} to ${group.to}` : null));
	const processes = sumBy(entry, (group, row) => row[ROW.process]);
	const regions = sumBy(entry, (group) => group.region);
	const right = [section("Functions", figureList(sumBy(entry, (group) => group.function), (name) => name)), waitedList(entry)];
	if (kinds.length) right.push(section("Memory", figureList(kinds, (name) => name)));
	if (processes.length > 1) right.push(section("Processes", figureList(processes, processLabel)));
	if (regions.length) right.push(section("Regions", figureList(regions, (name) => name)));
	return element("tr", {class: "more", id}, element("td", {colspan: columns().length},
		ranked.bySite && entry.group.cause ? element("p", {}, entry.group.cause) : null,
		element("div", {class: "more-grid"}, element("div", {}, sitesSection(entry)), element("div", {class: "facts-grid"}, ...right))));
}

function toggle(key) {
	if (!ranked.open.delete(key)) ranked.open.add(key);
	drawTable();
}

function nameCell(entry, id, highest) {
	const isOpen = ranked.open.has(entry.key), group = entry.group;
	const bar = element("span", {class: "bar", "aria-hidden": "true"});
	bar.style.background = `var(${colourOf(group)})`;
	bar.style.width = (highest ? Math.max(100 * entry.sum.blocked / highest, .3) : 0) + "%";
	return element("th", {scope: "row"},
		element("button", {type: "button", class: "name", "aria-expanded": String(isOpen), "aria-controls": isOpen ? id : null, "data-key": entry.key,
			onclick: () => toggle(entry.key)},
			element("span", {class: "turn", "aria-hidden": "true"}), swatch(colourOf(group)), element("b", {}, ranked.bySite ? siteLabel(group) : group.rule)),
		element("div", {class: "under"}, ranked.bySite ? `${group.rule}, ${group.function}` : group.cause || "",
			group.allowed ? " (allowed scope)" : "", group.own_cost ? " (the call's own work)" : ""), bar);
}

function entryRow(entry, index, all, highest) {
	const id = `more-${index}`;
	const cells = columns().slice(1).map((column) => element("td", {"data-id": column.id, class: [column.words && "words", column.extra && "extra"].filter(Boolean).join(" ") || null},
		column.id === "class" ? element("span", {class: `tag ${entry.group.class}`}, CLASSES[entry.group.class]) : column.show(entry, all)));
	const line = element("tr", {class: "entry"}, nameCell(entry, id, highest), ...cells);
	return ranked.open.has(entry.key) ? [line, moreRow(entry, id)] : [line];
}

function sortBy(column) {
	ranked.descending = ranked.sort === column.id ? !ranked.descending : !column.words;
	ranked.sort = column.id;
	drawTable();
}

function drawHead() {
	byId("table-head").replaceChildren(element("tr", {}, ...columns().map((column) => element("th", {
		scope: "col", class: [column.words && "words", column.extra && "extra"].filter(Boolean).join(" ") || null,
		"aria-sort": ranked.sort === column.id ? (ranked.descending ? "descending" : "ascending") : "none",
	}, element("button", {type: "button", "data-sort": column.id, onclick: () => sortBy(column)},
		column.id === "name" && ranked.bySite ? "Call site" : column.title)))));
}

function drawTable() {
	const entries = ranking(ranked.bySite), sign = ranked.descending ? -1 : 1;
	const column = COLUMNS.find((one) => one.id === ranked.sort) || {value: (entry) => -CLASS_ORDER.indexOf(entry.group.class)};
	const all = entries.reduce((sum, entry) => sum + entry.sum.blocked, 0), highest = entries.reduce((most, entry) => Math.max(most, entry.sum.blocked), 0);
	const focused = document.activeElement && document.activeElement.dataset ? {...document.activeElement.dataset} : {};
	entries.sort((a, b) => {
		const left = column.value(a), right = column.value(b);
		const order = typeof left === "string" ? (left < right ? -1 : Number(left > right)) : left - right;
		return sign * order || b.sum.blocked - a.sum.blocked || (a.key < b.key ? -1 : 1);
	});
	drawHead();
	const lines = entries.slice(0, ranked.limit).flatMap((entry, index) => entryRow(entry, index, all, highest));
	if (!entries.length)
		lines.push(element("tr", {}, element("td", {class: "empty", colspan: columns().length},
			page.rows.length ? "No wait passes the filter." : "No wait was recorded.")));
	if (entries.length > ranked.limit)
		lines.push(element("tr", {}, element("td", {class: "empty", colspan: columns().length}, element("button", {type: "button", class: "link",
			onclick: () => { ranked.limit += 200; drawTable(); }}, `Show more (${count(entries.length - ranked.limit)} left)`))));
	byId("table-body").replaceChildren(...lines);
	const again = focused.key ? "key" : focused.sort ? "sort" : null; /* the element that had the focus was replaced */
	if (again) for (const button of document.querySelectorAll(`[data-${again}]`)) if (button.dataset[again] === focused[again]) button.focus({preventScroll: true});
}

function rankBy(bySite) {
	ranked.bySite = bySite;
	ranked.open.clear();
	byId("by-rule").setAttribute("aria-pressed", String(!bySite));
	byId("by-site").setAttribute("aria-pressed", String(bySite));
	drawTable();
}

/* Opens the entry by call site that a test of its group finds, and goes there. */
function openWhere(matches) {
	rankBy(true);
	const entry = ranking(true).find((one) => matches(one.group, one));
	if (!entry) return;
	ranked.open.add(entry.key);
	ranked.limit = Math.max(ranked.limit, ranking(true).length);
	drawTable();
	for (const button of document.querySelectorAll("[data-key]"))
		if (button.dataset.key === entry.key) {
			button.focus({preventScroll: true});
			button.scrollIntoView({block: "center"});
		}
}

const openSite = (group) => openWhere((_, entry) => entry.sum.groups.has(group));
const openEntry = (entry, site) => openWhere((group) => group.rule === entry.group.rule && group.class === entry.group.class
	&& group.allowed === entry.group.allowed && (group.site === null ? -1 : group.site) === site);
