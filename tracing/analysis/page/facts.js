// SPDX-License-Identifier: MIT
/* The data of the page: read once, filtered and summed on demand. The fields are those of page_json.c. */
const page = JSON.parse(byId("data").textContent);

/* A name of nothing or of blanks would not be seen. */
for (const group of page.groups)
	for (const key of ["rule", "function"]) if (!group[key].trim()) group[key] = "(empty name)";

const CLASSES = {implicit: "implicit", explicit: "explicit", device: "device", unknown: "not known"};
const WAIT = {begin: 0, call: 1, blocked: 2, bytes: 3, group: 4, thread: 5, stream: 6, target: 7};
const ROW = {group: 0, process: 1, stream: 2, count: 3, blocked: 4, longest: 5, call: 6, bytes: 7};

const NO_FILTER = {process: -1, stream: -1, class: "", rule: "", text: ""};
let filter = {...NO_FILTER};

/* Colours by rule: the implicit rules that blocked longest have one of their own. */
const ruleColours = new Map();
(function assignColours() {
	const sums = new Map();
	for (const row of page.rows) {
		const group = page.groups[row[ROW.group]];
		if (group.class === "implicit" || group.class === "unknown")
			sums.set(group.rule, (sums.get(group.rule) || 0) + row[ROW.blocked]);
	}
	[...sums].sort((a, b) => b[1] - a[1]).forEach(([rule], index) =>
		ruleColours.set(rule, index < 8 ? `--rule-${index}` : "--rule-other"));
})();

function colourOf(group) {
	if (group.class === "explicit") return "--rule-explicit";
	if (group.class === "device") return "--rule-device";
	return ruleColours.get(group.rule) || "--rule-other";
}

const siteOf = (group) => (group.site === null ? null : page.sites[group.site]);
const siteLabel = (group) => { const site = siteOf(group); return site ? site.label : "call site not known"; };
const threadLabel = (thread) => (thread[1] < 0 ? "further threads" : (thread[1] === page.processes[thread[0]].pid ? "main thread " : "thread ") + thread[1]);
const processLabel = (index) => page.processes[index].words;

/* Without the context where all streams of the process are of one. */
const contextsOfProcess = page.processes.map(() => new Set());
for (const [process, words, short] of page.streams) contextsOfProcess[process].add(words.slice(short.length));
const streamLabel = (row) => {
	const stream = row >= 0 && page.streams[row];
	return stream ? stream[contextsOfProcess[stream[0]].size > 1 ? 1 : 2] : "a stream";
};

/* By rank, then by appearance. */
const processOrder = page.processes.map((_, index) => index).sort((a, b) => {
	const left = page.processes[a].rank, right = page.processes[b].rank;
	if ((left < 0) !== (right < 0)) return left < 0 ? 1 : -1;
	return left - right || a - b;
});

/* What a text search looks through, by group. */
const searchTexts = page.groups.map((group) => {
	const site = siteOf(group);
	const frames = site ? [...site.python, ...site.frames].flatMap((frame) => [frame.function, frame.file]) : [];
	return [group.rule, group.function, group.cause, group.region, site && site.label, ...frames].filter(Boolean).join("\n").toLowerCase();
});

/* The groups that pass the filter; recomputed when it changes. */
let groupPasses = [];
function applyFilter() {
	const text = filter.text.trim().toLowerCase();
	groupPasses = page.groups.map((group, index) => (!filter.class || group.class === filter.class)
		&& (!filter.rule || group.rule === filter.rule) && (!text || searchTexts[index].includes(text)));
}

function targetHasStream(target, stream) {
	return target >= 0 && page.targets[target].some((member) => member[0] === stream);
}

/* A row's stream is the call's operand; a wait counts, too, if it waited for the stream. */
const streamsOfGroup = new Map();
for (const [group, process, target] of page.waited)
	for (const member of page.targets[target]) {
		const key = group * 65536 + process;
		if (!streamsOfGroup.has(key)) streamsOfGroup.set(key, new Set());
		streamsOfGroup.get(key).add(member[0]);
	}

function rowPasses(row) {
	if (!groupPasses[row[ROW.group]] || (filter.process >= 0 && row[ROW.process] !== filter.process)) return false;
	if (filter.stream < 0 || row[ROW.stream] === filter.stream) return true;
	const streams = streamsOfGroup.get(row[ROW.group] * 65536 + row[ROW.process]);
	return Boolean(streams && streams.has(filter.stream));
}

function waitPasses(wait) {
	if (!groupPasses[wait[WAIT.group]]) return false;
	if (filter.process >= 0 && page.threads[wait[WAIT.thread]][0] !== filter.process) return false;
	return filter.stream < 0 || wait[WAIT.stream] === filter.stream || targetHasStream(wait[WAIT.target], filter.stream);
}

/* Savings by process, rule and site; of several processes the one that gains most counts. */
const savings = new Map();
for (const [process, text, site, low, high, middle] of page.savings || []) {
	const key = page.texts[text] + "\n" + site;
	if (!savings.has(key)) savings.set(key, new Map());
	savings.get(key).set(process, {low, high, middle});
}

function savingOf(rule, site) {
	let best = null;
	for (const [process, saving] of savings.get(rule + "\n" + site) || [])
		if ((filter.process < 0 || process === filter.process) && (!best || saving.middle > best.middle)) best = saving;
	return best;
}

function emptySum() {
	return {count: 0, blocked: 0, longest: 0, bytes: 0, call: 0, groups: new Set(), processes: new Map()};
}

function addTo(sum, row) {
	sum.count += row[ROW.count];
	sum.blocked += row[ROW.blocked];
	sum.bytes += row[ROW.bytes];
	sum.call += row[ROW.call];
	sum.longest = Math.max(sum.longest, row[ROW.longest]);
	sum.groups.add(row[ROW.group]);
	sum.processes.set(row[ROW.process], (sum.processes.get(row[ROW.process]) || 0) + row[ROW.blocked]);
}

/* Entries of the ranking: by rule, or by call site and rule. */
function ranking(bySite) {
	const entries = new Map();
	for (const row of page.rows) {
		if (!rowPasses(row)) continue;
		const group = page.groups[row[ROW.group]];
		const key = JSON.stringify(bySite ? [group.rule, group.class, group.allowed, group.site, group.function] : [group.rule, group.class, group.allowed]);
		if (!entries.has(key)) entries.set(key, {key, group, sum: emptySum()});
		addTo(entries.get(key).sum, row);
	}
	for (const entry of entries.values())
		entry.saving = page.savings ? savingOf(entry.group.rule, bySite && entry.group.site !== null ? entry.group.site : -1) : null;
	return [...entries.values()];
}

/* Sums by class, for the head figures; allowed scopes and the calls' own cost apart. */
function totals() {
	const sums = {implicit: emptySum(), explicit: emptySum(), device: emptySum(), unknown: emptySum(), allowed: emptySum(), own: emptySum()};
	for (const row of page.rows) {
		if (!rowPasses(row)) continue;
		const group = page.groups[row[ROW.group]];
		if (group.allowed && group.class === "implicit") addTo(sums.allowed, row);
		else addTo(group.own_cost ? sums.own : sums[group.class] || sums.unknown, row);
	}
	return sums;
}

applyFilter();
