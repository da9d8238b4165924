// SPDX-License-Identifier: MIT
/* The timeline's rows: which there are, in which order and how high. Times are ns since the page's beginning. */
const LENGTH = Math.max(page.length_ns, 1000);
const LANES = 3; /* of operations in one stream's row, at most */
const narrow = window.matchMedia("(max-width: 700px)");

const waitsOfThread = page.threads.map(() => []);
page.waits.forEach((wait, index) => waitsOfThread[wait[WAIT.thread]].push(index));
for (const list of waitsOfThread) list.sort((a, b) => page.waits[a][WAIT.begin] - page.waits[b][WAIT.begin]);
const waitsByTime = page.waits.map((_, index) => index).sort((a, b) => page.waits[a][WAIT.begin] - page.waits[b][WAIT.begin]);

const waitEnd = (wait) => wait[WAIT.begin] + Math.max(wait[WAIT.call], 1);

/* What a stream's row shows: operations (level full), and what waits say about it. */
const operationsOfStream = page.streams.map(() => []);
const lanesOfStream = page.streams.map(() => 1);
for (const [stream, begin, end, text] of page.operations) operationsOfStream[stream].push({begin, end: Math.max(end, begin + 1), text, lane: 0});
operationsOfStream.forEach((list, stream) => {
	const ends = new Array(LANES).fill(-1);
	for (const operation of list) {
		let lane = ends.findIndex((end) => end <= operation.begin);
		if (lane < 0) lane = ends.indexOf(Math.min(...ends));
		ends[lane] = Math.max(ends[lane], operation.end);
		operation.lane = lane;
		lanesOfStream[stream] = Math.max(lanesOfStream[stream], lane + 1);
	}
});
const busyOfStream = page.streams.map(() => []);
for (const index of waitsByTime) {
	const target = page.waits[index][WAIT.target];
	for (const [stream, text] of target >= 0 ? page.targets[target] : [])
		if (stream >= 0) busyOfStream[stream].push({wait: index, text});
}

let rows = [];
let rowsHeight = 0;

function layRows() {
	const heights = narrow.matches ? {process: 28, thread: 40, stream: 34} : {process: 26, thread: 30, stream: 26};
	let top = 0;
	const add = (kind, index, label) => {
		rows.push({kind, index, label, top, height: heights[kind]});
		top += heights[kind];
	};
	rows = [];
	for (const process of processOrder) {
		if (filter.process >= 0 && process !== filter.process) continue;
		const threads = page.threads.map((_, index) => index).filter((index) => page.threads[index][0] === process);
		const streams = page.streams.map((_, index) => index)
			.filter((index) => page.streams[index][0] === process && (operationsOfStream[index].length || busyOfStream[index].length))
			.filter((index) => filter.stream < 0 || index === filter.stream);
		if (!threads.length && !streams.length) continue;
		add("process", process, processLabel(process));
		for (const thread of threads) add("thread", thread, threadLabel(page.threads[thread]));
		for (const stream of streams) add("stream", stream, streamLabel(stream));
	}
	rowsHeight = top;
}
