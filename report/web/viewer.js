// Shows the timelines of runs on a canvas: zoom, search, idle time by cause, the critical path, and memory.
// report/pages/packed_runs.cpp writes the data that this script reads; both name the columns in the same way.
// loader.js starts this script.
//
// Each run is a set of typed arrays with an entry for each span, so that only the visible part of a run is
// touched when it is drawn. Where actions are narrower than a few pixels, each column of pixels has the mean
// colour of what runs in it. Wider actions are boxes with names.
(() => {
'use strict';

const AXIS = 22, LEAST_BOX = 4, LEAST_WINDOW = 20, MOST_MESSAGES = 1500, MOST_SVG_BOXES = 20000, MOST_CHAIN_LINES = 8;
// Numbers of ChainKind in report/why/explanation.hpp, and the number that ends a chain.
const COMPUTE = 0, TRANSFER = 1, QUEUE = 2, LATENCY = 3, COLLECTIVE = 4, LAUNCH = 5, OFFLOAD = 6, END_OF_CHAIN = 7;
const CHAIN_WORDS = ['computes on rank', 'is sent by rank', 'is sent before it in its channel by rank',
  'is on its way from rank', 'runs on the ranks of its stage, such as rank', 'is launched on rank'];

// --- reading the data ---

class Column {
  constructor(bytes, at) { this.bytes = bytes; this.at = at; this.zeros = 0; }
  varint() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, factor = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    return value;
  }
  // A 0 in a column is followed by the number of other zeros behind it.
  next() {
    if (this.zeros > 0) { --this.zeros; return 0; }
    const value = this.varint();
    if (value === 0) this.zeros = this.varint();
    return value;
  }
  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

function readRuns(bytes) {
  const start = new Column(bytes, 0), length = start.varint();
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(start.at, start.at + length)));
  let at = start.at + length;
  for (const run of data.runs) {
    const columns = {};
    for (const [name, size] of Object.entries(run.columns)) {
      columns[name] = new Column(bytes, at);
      at += size;
    }
    readSpans(run, data, columns);
    readIntervals(run, columns);
    if (run.memory) readMemory(run, columns);
  }
  return data;
}

function readSpans(run, data, columns) {
  const count = run.ranks.reduce((sum, rank) => sum + rank.spans, 0);
  const spans = run.spans = {rank: new Int32Array(count), code: new Int32Array(count), microbatch: new Int32Array(count).fill(-1),
    version: new Int32Array(count), start: new Float64Array(count), end: new Float64Array(count),
    released: new Float64Array(count).fill(-1), link: new Int32Array(count).fill(-1)};
  run.codes = [];
  run.count = count;
  readActions(run, data, columns);
  linkMessages(run);
  const reader = new TimeReader(run, columns);
  reader.read();
  run.input = reader.input;
  for (const rank of run.ranks) {
    const codes = run.codes.slice(rank.firstCode, rank.firstCode + rank.codes), groups = [], sent = [], collectives = [];
    for (let i = rank.first, group = -1; i < rank.first + rank.spans; ++i) {
      const code = run.codes[spans.code[i]];
      if (code.compute) {
        if (group < 0 || !run.codes[spans.code[group]].pair) groups.push(i);
        group = i;
      } else if (code.send) {
        sent.push(i);
      } else if (!code.receive && spans.end[i] > spans.start[i]) {
        collectives.push(i);
      }
    }
    rank.groups = sorted(groups, spans);
    rank.sent = sorted(sent, spans);
    rank.collectives = sorted(collectives, spans);
    rank.longestSend = rank.sent.reduce((most, s) => Math.max(most, spans.end[s] - spans.start[s]), 0);
    const stages = [...new Set(codes.filter(code => code.compute).map(code => code.stage))].sort((a, b) => a - b);
    for (const code of codes)
      code.shade = stages.length < 2 ? 0 : 0.5 * Math.max(0, stages.indexOf(code.stage)) / (stages.length - 1);
  }
}

// Reads the actions of all ranks in program order, without their times. After three codes of a rank, the code is
// expected that came after them when they last came.
function readActions(run, data, columns) {
  const {rankCodes, code: codeColumn, microbatch: microbatchColumn, version} = columns, spans = run.spans;
  const codesBefore = [], nextCode = new Map();
  let i = 0;
  run.ranks.forEach((rank, number) => {
    rank.first = i;
    const base = rank.firstCode = run.codes.length, last = [];
    for (let i = 0; i < rank.codes; ++i) {
      const code = codesBefore[i] ??= [0, 0, 0, 0, 0], [kind, stage, peer, replica, pair] = code.map((part, k) => code[k] = part + rankCodes.signed());
      run.codes.push({...data.kinds[kind], number: kind, stage, peer, replica, pair: pair === 1, rank: number});
      last.push({microbatch: -1, version: 0});
    }
    let context = 0;
    for (const end = i + rank.spans; i < end; ++i) {
      const change = codeColumn.next(), local = change > 0 ? change - 1 : nextCode.get(context) ?? 0;
      nextCode.set(context, local);
      context = context % 1048576 * 1024 + local % 1024;
      const code = run.codes[base + local], before = last[local];
      spans.rank[i] = number;
      spans.code[i] = base + local;
      if (code.microbatch) spans.microbatch[i] = before.microbatch += microbatchColumn.signed() + 1;
      spans.version[i] = before.version += version.signed();
    }
  });
}

// Joins the first SEND of a message and its last RECV.
function linkMessages(run) {
  const {code, link} = run.spans, sends = new Map();
  for (let i = 0; i < run.count; ++i) {
    if (!run.codes[code[i]].send) continue;
    const key = messageKey(run, i);
    if (!sends.has(key)) sends.set(key, i);
  }
  for (let i = 0; i < run.count; ++i) {
    if (!run.codes[code[i]].receive) continue;
    const send = sends.get(messageKey(run, i));
    if (send !== undefined) { link[i] = send; link[send] = i; }
  }
}

// Reads the times of all spans. They are differences to expected times, as report/pages/packed_spans.cpp describes. A
// rank goes on until it needs a message that is not read yet, and waits for it while other ranks go on.
class TimeReader {
  constructor(run, columns) {
    Object.assign(this, {run, columns, spans: run.spans, channelFree: new Map(), lastOfKind: [],
      input: new Int32Array(run.count).fill(-1), isRead: new Uint8Array(run.count), isAwaited: new Uint8Array(run.count)});
    this.cursors = run.ranks.map(rank => ({next: rank.first, end: rank.first + rank.spans, group: -1}));
    this.last = run.codes.map(() => null);
    run.ranks.forEach(rank => this.findInputs(rank));
  }

  code(span) { return this.run.codes[this.spans.code[span]]; }

  // Finds the RECV of each action that reads a message, and the action that produces each SEND.
  findInputs(rank) {
    const received = new Map(), produced = new Map();
    for (let i = rank.first; i < rank.first + rank.spans; ++i) {
      const code = this.code(i), {letters} = code, isForward = letters === 'F' || letters.endsWith('_F');
      const key = (this.spans.microbatch[i] * 65536 + code.stage) * 2 + (isForward ? 1 : 0);
      if (code.receive) {
        received.set(key, i);
      } else if (letters === 'F' || letters === 'B' || letters === 'I') {
        this.input[i] = received.get(key) ?? -1;
        produced.set(key, i);
      } else if (code.send) {
        this.input[i] = produced.get(key) ?? -1;
      }
    }
  }

  read() {
    const ready = this.ready = this.cursors.map((_, rank) => rank), {cursors} = this;
    for (let next = 0, unfinished = 0;;) {
      if (next < ready.length) { this.advance(cursors[ready[next++]], false); continue; }
      while (unfinished < cursors.length && cursors[unfinished].next === cursors[unfinished].end) ++unfinished;
      if (unfinished === cursors.length) return;
      this.advance(cursors[unfinished], true);
    }
  }

  advance(cursor, isForced) {
    const {link} = this.spans;
    for (; cursor.next < cursor.end; ++cursor.next) {
      const i = cursor.next, code = this.code(i);
      if (code.receive && this.isLinked(i)) continue;
      if (this.opensGroup(cursor, code) && this.waits(i, cursor.end) && !isForced) return;
      isForced = false;
      this.readSpan(cursor, i, code);
      if (code.send && link[i] >= 0) this.readReceive(i, link[i]);
      if (code.compute) cursor.group = i;
    }
  }

  waits(span, end) {
    for (let leaf = span; leaf < end; ++leaf) {
      const input = this.input[leaf];
      if (input >= 0 && this.isLinked(input) && !this.isRead[input]) {
        this.isAwaited[input] = 1;
        return true;
      }
      if (!this.code(leaf).pair) return false;
    }
    return false;
  }

  readSpan(cursor, i, code) {
    const {start, end, released, link} = this.spans, {columns} = this;
    const last = this.last[this.spans.code[i]] ??= {duration: 0, hold: 0, ...this.lastOfKind[code.number]};
    this.lastOfKind[code.number] = last;
    start[i] = this.expectedStart(cursor, i, code) + columns.start.signed();
    end[i] = start[i] + (last.duration += columns.duration.signed());
    if (code.send) {
      last.hold += columns.release.signed();
      if (last.hold >= 0) {
        released[i] = start[i] + last.hold;
        if (link[i] >= 0) this.channelFree.set(this.channelOf(i), released[i]);
      }
    }
    this.isRead[i] = 1;
  }

  readReceive(send, receive) {
    const {start, end, rank} = this.spans;
    start[receive] = start[send] + this.columns.start.signed();
    end[receive] = end[send] + this.columns.duration.signed();
    this.isRead[receive] = 1;
    if (this.isAwaited[receive]) this.ready.push(rank[receive]);
  }

  expectedStart(cursor, i, code) {
    const {start, end} = this.spans, {input} = this;
    let expected = cursor.group < 0 ? 0 : end[cursor.group];
    if (code.compute) {
      if (!this.opensGroup(cursor, code)) return start[cursor.group];
      for (let leaf = i; leaf < cursor.end; ++leaf) {
        if (input[leaf] >= 0 && this.isRead[input[leaf]]) expected = Math.max(expected, end[input[leaf]]);
        if (!this.code(leaf).pair) break;
      }
    } else if (code.send) {
      if (input[i] >= 0) expected = end[input[i]];
      expected = Math.max(expected, this.channelFree.get(this.channelOf(i)) ?? expected);
    }
    return expected;
  }

  isLinked(receive) {
    const {link} = this.spans, send = link[receive];
    return send >= 0 && link[send] === receive;
  }

  opensGroup(cursor, code) { return code.compute && (cursor.group < 0 || !this.code(cursor.group).pair); }

  channelOf(send) {
    const {link, rank} = this.spans;
    return rank[send] * this.cursors.length + (link[send] >= 0 ? rank[link[send]] : -1);
  }
}

// Returns a number that the SEND and the RECV of a message share. It has a direction, two stages and a microbatch.
function messageKey(run, span) {
  const code = run.codes[run.spans.code[span]], [from, to] = code.send ? [code.stage, code.peer] : [code.peer, code.stage];
  return ((run.spans.microbatch[span] * 2 + (code.letters.endsWith('F') ? 1 : 0)) * 65536 + from) * 65536 + to;
}

function sorted(list, spans) {
  const isSorted = list.every((span, i) => i === 0 || spans.start[list[i - 1]] <= spans.start[span]);
  return isSorted ? Int32Array.from(list) : Int32Array.from(list).sort((a, b) => spans.start[a] - spans.start[b] || a - b);
}

// Idle intervals are the gaps between groups. The data has only their causes, so that a run without causes has
// intervals, too. An interval's `info` is its place in the tables of causes, or -1. The parts of an interval are
// those from partFirst[info] to partFirst[info + 1]. Part 0 is the ideal run's, and part c + 1 that of cause c.
function readIntervals(run, columns) {
  const spans = run.spans, tables = run.causes = {phase: [], from: [], to: [], ready: [], before: [], partFirst: [0], part: [], time: []};
  run.ranks.forEach((rank, number) => {
    const intervals = rank.intervals = {start: [], end: [], group: [], info: []}, groups = rank.groups, count = groups.length;
    const endBefore = group => group > 0 ? spans.end[groups[group - 1]] : 0, lasts = new Map();
    let left = run.explained ? run.intervals[number] : 0, explained = -1;
    const findExplained = group => {
      while (group < count && spans.start[groups[group]] <= endBefore(group)) ++group;
      explained = left-- > 0 ? group + columns.intervalAt.signed() : -1;
    };
    findExplained(0);
    for (let group = 0; group <= count; ++group) {
      const from = endBefore(group), to = group < count ? spans.start[groups[group]] : run.makespan;
      let info = -1;
      if (group === explained) {
        info = tables.phase.length;
        const after = group < count ? groups[group] : -1, code = after < 0 ? -1 : spans.code[after];
        if (!lasts.has(code)) lasts.set(code, {bits: 0, parts: new Map(), ready: 0});
        readParts(tables, columns, from, to, lasts.get(code));
        const ready = lasts.get(code).ready += columns.ready.signed();
        tables.before.push(after);
        tables.ready.push(ready > 0 ? ready + Math.max(0, after) : -1);
        findExplained(group + 1);
      }
      if (to > from && !(run.leftOut && from < run.leftOut[1] && to > run.leftOut[0])) {
        intervals.start.push(from);
        intervals.end.push(to);
        intervals.group.push(group);
        intervals.info.push(info);
      }
    }
  });
  run.chainColumns = run.explained ? columns : null;
}

// Reads the parts of an interval. They are expected to be those of `last`, the last intervals before an action with
// the same code: the causes of the last one, and the times of the last one with these causes.
function readParts(tables, columns, from, to, last) {
  const change = columns.intervalMask.next();
  if (change > 0) last.bits = change - 1;
  if (!last.parts.has(last.bits)) last.parts.set(last.bits, []);
  const expected = last.parts.get(last.bits);
  tables.phase.push(last.bits % 3);
  tables.from.push(from);
  tables.to.push(to);
  let rest = to - from, count = 0;
  for (let bit = 0, mask = Math.floor(last.bits / 3); mask > 0; ++bit, mask >>= 1) {
    if (mask % 2 === 0) continue;
    if (count > 0) {
      const time = expected[count - 1] = (expected[count - 1] ?? 0) + columns.intervalPart.signed();
      rest -= time;
      tables.time.push(time);
    }
    tables.part.push(bit);
    ++count;
  }
  if (count > 0) tables.time.push(rest);
  tables.partFirst.push(tables.part.length);
}

// Reads the steps of chains, and finds the critical path. They are read when they are first needed, so that the first
// picture need not wait for them. A step leads from a link of a chain to the link before it. Most steps follow from the
// times of the run (likelyLink). The others hold in all chains, except in those whose `links` have another link there.
function readChains(run) {
  if (run.isCritical) return;
  Object.assign(run, {steps: new Map(), links: [], critical: []});
  if (run.explained) {
    findNeighbours(run);
    const {from, before} = run.causes, last = new Map();
    for (let info = 0; info <= from.length; ++info) {
      const [begin, after] = info < from.length ? [from[info], before[info]] : [0, -1];
      run.links.push(readLinks(run, last, begin, after));
    }
    run.critical = chainOf(run, from.length, 0, run.makespan, -1);
  }
  run.isCritical = new Set(run.critical.map(link => link.span));
}

// Finds the compute group of each action, the group before each group, and the SEND before each SEND in its channel.
function findNeighbours(run) {
  const {code, link, rank: rankOf} = run.spans, sent = new Map();
  run.groupOf = new Int32Array(run.count).fill(-1);
  run.beforeOf = new Int32Array(run.count).fill(-1);
  for (const rank of run.ranks) {
    for (let i = rank.first, last = -1; i < rank.first + rank.spans; ++i) {
      const {send, compute} = run.codes[code[i]];
      if (send) {
        const channel = rankOf[i] * run.ranks.length + (link[i] >= 0 ? rankOf[link[i]] : -1);
        run.beforeOf[i] = sent.get(channel) ?? -1;
        sent.set(channel, i);
      } else if (compute) {
        const opens = last < 0 || !run.codes[code[last]].pair;
        run.groupOf[i] = opens ? i : run.groupOf[last];
        if (opens && last >= 0) run.beforeOf[i] = run.groupOf[last];
        last = i;
      }
    }
  }
}

const stepBefore = (run, later) => run.steps.get(stepKey(later)) ?? likelyLink(run, later);

// Returns the link before `later` if times alone decide: the action or message that ended when `later` began.
function likelyLink(run, later) {
  const {start, end, released, code, link} = run.spans, i = later.span, made = (what, span) => ({what, span, late: 0});
  if (i < 0) return made(END_OF_CHAIN, -1);
  const before = run.beforeOf[i];
  if (run.codes[code[i]].send) {
    if (later.what === LATENCY && released[i] > start[i]) return made(TRANSFER, i);
    const producer = run.input[i];
    if (producer >= 0 && end[producer] === start[i]) return made(COMPUTE, run.groupOf[producer]);
    return before >= 0 && released[before] === start[i] ? made(QUEUE, before) : made(END_OF_CHAIN, -1);
  }
  if (before >= 0 && end[before] === start[i]) return made(COMPUTE, before);
  for (let leaf = i;; ++leaf) {
    const input = run.input[leaf], send = input < 0 ? -1 : link[input];
    if (send >= 0 && end[input] === start[i]) return made(end[send] > released[send] ? LATENCY : TRANSFER, send);
    if (!run.codes[code[leaf]].pair || leaf + 1 >= run.count) return made(END_OF_CHAIN, -1);
  }
}

const stepKey = link => link.span * (END_OF_CHAIN + 1) + link.what;

// Returns the start of a link unless it is a launch, whose start is the end of the link before it.
function beginOf(run, link, from) {
  const {start, released} = run.spans;
  return Math.max(start[link.span], link.what === LATENCY ? released[link.span] : from, from) + link.late;
}

const endsChain = (run, link, from) => link.what === END_OF_CHAIN || (link.what !== LAUNCH && beginOf(run, link, from) <= from);

// Reads the links of a chain that are not known yet, by their places behind the latest one. `last` has the distances
// between the spans of neighbouring links.
function readLinks(run, last, from, after) {
  const columns = run.chainColumns, own = new Map();
  for (let place = 0, later = {what: COMPUTE, span: after};; ++place) {
    const known = columns.chainKnown.next();
    if (known === 0) return own;
    for (const end = place + known - 1; place < end; ++place) later = stepBefore(run, later);
    const link = {what: columns.chainWhat.next(), span: -1, late: 0};
    if (link.what !== END_OF_CHAIN) {
      const key = later.span < 0 ? -1 : run.spans.code[later.span] * END_OF_CHAIN + later.what;
      const distance = (last.get(key) ?? 0) + columns.chainSpan.signed();
      last.set(key, distance);
      link.span = later.span + distance;
      link.late = columns.chainFrom.signed();
    }
    const isStep = link.late === 0 && link.span >= 0 && later.span >= 0 && !run.steps.has(stepKey(later));
    if (isStep) run.steps.set(stepKey(later), link); else own.set(place, link);
    if (endsChain(run, link, from)) return own;
    later = link;
  }
}

// Returns the chain before an interval, the earliest link first.
function chainOf(run, info, from, to, after) {
  const links = [], spans = run.spans;
  for (let later = {what: COMPUTE, span: after};; later = links[links.length - 1]) {
    const link = run.links[info].get(links.length) ?? stepBefore(run, later);
    if (link.what === END_OF_CHAIN) break;
    links.push(link);
    if (endsChain(run, link, from)) break;
  }
  let end = from;
  return links.reverse().map(link => {
    const {what, span} = link, begin = what === LAUNCH ? end + link.late : beginOf(run, link, from);
    end = [COMPUTE, LATENCY, COLLECTIVE, OFFLOAD].includes(what) ? spans.end[span]
      : what === LAUNCH ? begin : Math.max(begin, spans.released[span]);
    return {what, span, from: begin};
  }).map((link, i, all) => ({...link, to: i + 1 < all.length ? all[i + 1].from : to}));
}

function chainBefore(run, info) {
  readChains(run);
  const {from, to, before} = run.causes;
  return chainOf(run, info, from[info], to[info], before[info]);
}

// Reads the memory of all ranks. At each time when something starts or ends on a rank, its memory is expected to change
// as it did when the same things last started or ended. Other samples are between these times.
function readMemory(run, columns) {
  const {memory} = run, changes = new Map(), none = memory.categories.map(() => 0);
  const readChange = () => {
    const change = [...none];
    for (let c = 0, mask = columns.memoryMask.next(); mask > 0; ++c, mask >>= 1)
      if (mask % 2) change[c] = columns.memoryAmount.signed();
    return change;
  };
  memory.ranks.forEach((rank, number) => {
    const moments = memory.thin || !run.ranks[number] ? {time: [], key: []} : momentsOf(run, run.ranks[number]);
    const times = [], amounts = none.map(() => []), now = [...none];
    let time = 0;
    const add = change => {
      if (change.every(amount => amount === 0)) return;
      times.push(time);
      change.forEach((amount, c) => amounts[c].push(now[c] += amount));
    };
    const readBetween = () => {
      for (let left = columns.memoryBetween.next(); left > 0; --left) {
        time += columns.memoryTime.signed();
        add(readChange());
      }
    };
    for (let i = 0; i < moments.time.length; ++i) {
      readBetween();
      time = moments.time[i];
      if (columns.memoryChange.next() > 0) changes.set(moments.key[i], readChange());
      add(changes.get(moments.key[i]) ?? none);
    }
    readBetween();
    rank.samples = times.length;
    rank.time = Float64Array.from(times);
    rank.amounts = amounts.map(list => Float64Array.from(list));
  });
}

// Returns the different times when something starts or ends on a rank, and a key of what does. This runs for each
// rank before the first picture, so it calls no functions for single times.
function momentsOf(run, rank) {
  const {start, end, released, code} = run.spans, first = rank.first, last = first + rank.spans, all = new Float64Array(3 * rank.spans);
  let count = 0;
  for (let i = first; i < last; ++i) {
    all[count++] = start[i];
    all[count++] = end[i];
    if (released[i] >= 0) all[count++] = released[i];
  }
  const time = all.subarray(0, count).sort();
  let different = 0;
  for (let i = 0; i < count; ++i) if (different === 0 || time[different - 1] !== time[i]) time[different++] = time[i];
  const key = new Uint32Array(different);
  for (const [times, event] of [[start, 1], [end, 2], [released, 3]]) {
    for (let i = first, near = 0; i < last; ++i) {
      const one = times[i];
      if (one < 0) continue;
      // Times that follow each other in the list are often near each other.
      let low = 0, high = different - 1;
      if (time[near] <= one) { low = near; if (near + 16 < different && time[near + 16] > one) high = near + 16; } else high = near;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (time[middle] > one) high = middle - 1; else low = middle;
      }
      near = low;
      key[low] += Math.imul(4 * (code[i] - rank.firstCode) + event, 0x9E3779B1);
    }
  }
  return {time: time.subarray(0, different), key};
}

// --- words ---

const chainPeer = code => code.stage + (code.letters === 'SEND_F' || code.letters === 'RECV_B' ? 1 : -1);

function spanName(run, span) {
  const code = run.codes[run.spans.code[span]];
  let name = code.stage + code.letters + (code.microbatch ? run.spans.microbatch[span] : '');
  if ((code.send || code.receive) && code.peer !== chainPeer(code)) name += (code.send ? '>' : '<') + code.peer;
  return name;
}

function leavesOf(run, span) {
  const leaves = [span];
  while (run.codes[run.spans.code[span]].pair && span + 1 < run.count) leaves.push(++span);
  return leaves;
}

const groupName = (run, span) => leavesOf(run, span).map(leaf => spanName(run, leaf)).join(';');

function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit + 1 < units.length) { bytes /= 1024; ++unit; }
  return `${unit ? bytes.toFixed(2) : bytes} ${units[unit]}`;
}

const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
const mixed = (a, b, share) => a.map((part, i) => Math.round(part + (b[i] - part) * share));
const css = colour => `rgb(${colour.join(',')})`;
const inkOn = colour => 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] < 140 ? '#fff' : '#1a1a1a';

// Returns the first place of a sorted list whose value is above `limit`.
function firstAbove(count, valueAt, limit) {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (valueAt(middle) > limit) high = middle; else low = middle + 1;
  }
  return low;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// --- the viewer ---

class Viewer {
  constructor(root, data, isFirst) {
    Object.assign(this, {root, data, isFirst, runs: data.runs, colourBy: 'kind', cause: null, hits: [], hit: -1,
      shown: {path: false, messages: true, collectives: true}, hovered: null, pointers: new Map(), rank: 0,
      leastBox: LEAST_BOX});
    this.makespan = Math.max(...this.runs.map(run => run.makespan), 1);
    this.from = 0;
    this.to = this.makespan;
    const unit = [[1e11, 1e9, 's'], [1e6, 1e6, 'ms'], [1e3, 1e3, 'us'], [0, 1, 'ns']].find(u => this.makespan >= u[0]);
    this.time = ns => (ns / unit[1]).toFixed(unit[1] > 1 ? 3 : 0) + ' ' + unit[2];
    this.unit = unit;
    this.lanes = [];
    const most = Math.max(...this.runs.map(run => run.ranks.length));
    for (let rank = 0; rank < most; ++rank) {
      this.runs.forEach((run, number) => {
        if (rank < run.ranks.length)
          this.lanes.push({run, rank: run.ranks[rank], number: rank, first: number === 0,
            label: number === 0 ? [run.ranks[rank].name, run.name].filter(part => part).join(' ') : run.name});
      });
    }
    this.buildBar();
    this.strip = this.addCanvas('strip', 34, 'Busy ranks over time. Drag to move the visible part.');
    this.canvas = this.addCanvas('lanes', 0, `Timeline of ${most} ranks over ${this.time(this.makespan)}, a row a rank. ` +
      'The tables of this page have its figures.');
    this.canvas.tabIndex = 0;
    this.memory = this.runs.length === 1 ? this.runs[0].memory : undefined;
    if (this.memory) {
      this.memoryTitle = root.appendChild(element('p', {class: 'note'}));
      this.memoryCanvas = this.addCanvas('memory', 110, 'Memory of one rank over time');
      this.rank = this.memory.ranks.reduce((best, rank, i, all) => rank.peak > all[best].peak ? i : best, 0);
    }
    this.legend = root.appendChild(element('div', {class: 'legend'}));
    this.tip = root.appendChild(element('div', {class: 'tip', role: 'status'}));
    this.linkCauses();
    if (isFirst) this.readAddress();
    this.listen();
    this.recolour();
    this.resize();
  }

  addCanvas(name, height, label) {
    const canvas = this.root.appendChild(element('canvas', {class: name, role: 'img', 'aria-label': label}));
    canvas.style.height = height + 'px';
    return canvas;
  }

  buildBar() {
    const bar = this.root.appendChild(element('div', {class: 'bar'}));
    const button = (text, title, action) => {
      const made = bar.appendChild(element('button', {type: 'button', title}, text));
      made.addEventListener('click', action);
      return made;
    };
    button('all', 'Show the whole run (0)', () => this.show(0, this.makespan));
    button('+', 'Zoom in (+)', () => this.zoom(0.5));
    button('\u2212', 'Zoom out (-)', () => this.zoom(2));
    const choice = bar.appendChild(element('select', {title: 'What colours mean', 'aria-label': 'What colours mean'}));
    for (const [value, text] of [['kind', 'colour by kind'], ['stage', 'colour by stage'], ['cause', 'colour idle time by cause']])
      if (value !== 'cause' || this.runs.some(run => run.explained)) choice.append(element('option', {value}, text));
    choice.addEventListener('change', () => { this.colourBy = choice.value; this.recolour(); this.redraw(); });
    this.choice = choice;
    this.toggles = {};
    for (const [name, text, key] of [['path', 'critical path', 'c'], ['messages', 'messages', 'm'], ['collectives', 'collectives', 's']]) {
      const exists = name === 'path' ? this.runs.some(run => run.explained)
        : this.runs.some(run => run.ranks.some(rank => (name === 'messages' ? rank.sent : rank.collectives).length));
      if (exists) this.toggles[name] = button(text, `Show or hide (${key})`, () => this.toggle(name));
    }
    this.search = bar.appendChild(element('input', {type: 'search', placeholder: 'find 5F17, idle>1ms', 'aria-label':
      'Find an action, a rank, or idle time: 5F17, rank 3, idle>1ms, cause:queue', title: '5F17, rank 3, idle>1ms, cause:queue'}));
    this.search.addEventListener('input', () => this.find(this.search.value));
    this.search.addEventListener('keydown', event => { if (event.key === 'Enter') this.nextHit(event.shiftKey ? -1 : 1); });
    button('PNG', 'Save the picture as it is shown', () => this.canvas.toBlob(blob => this.save(blob, 'timeline.png')));
    button('SVG', 'Save the lanes as they are shown, as boxes', () => this.saveSvg());
    button('light / dark', 'Change between light and dark (t)', () => this.changeTheme());
    this.status = this.root.appendChild(element('div', {class: 'status', 'aria-live': 'polite'}));
    this.updateToggles();
  }

  updateToggles() {
    for (const [name, button] of Object.entries(this.toggles)) button.setAttribute('aria-pressed', this.shown[name]);
  }

  toggle(name) {
    if (!this.toggles[name]) return;
    this.shown[name] = !this.shown[name];
    this.updateToggles();
    this.redraw();
  }

  // Makes each cause in the page's table a button.
  linkCauses() {
    this.causeButtons = [];
    if (!this.isFirst) return;
    const ids = new Map([...this.data.phases.map((phase, i) => [phase.name, 'phase' + i]),
      ...this.data.causes.map((cause, i) => [cause.name, 'cause' + i])]);
    for (const row of document.querySelectorAll('.causes tbody tr')) {
      const cell = row.cells[0], id = ids.get(cell.textContent);
      if (!id) continue;
      const button = element('button', {type: 'button', title: 'Colour these idle intervals', 'aria-pressed': false}, cell.textContent);
      button.addEventListener('click', () => this.chooseCause(this.cause === id ? null : id));
      cell.replaceChildren(button);
      this.causeButtons.push([id, button]);
    }
  }

  chooseCause(id) {
    this.cause = id;
    for (const [other, button] of this.causeButtons) button.setAttribute('aria-pressed', other === id);
    this.recolour();
    this.redraw();
    this.writeAddress();
  }

  // --- colours ---

  recolour() {
    const style = getComputedStyle(document.documentElement), variable = name => style.getPropertyValue(name).trim();
    const full = text => text.length === 4 ? '#' + [...text.slice(1)].map(c => c + c).join('') : text;
    this.page = rgb(full(variable('--page')));
    this.idle = rgb(full(variable('--idle')));
    this.ink = variable('--ink');
    this.faint = variable('--faint');
    this.line = variable('--line');
    const dimmed = this.cause !== null || this.colourBy === 'cause';
    for (const run of this.runs) {
      for (const code of run.codes) {
        const base = this.colourBy === 'stage' ? this.data.stages[code.stage % this.data.stages.length] : code.colour;
        const shaded = this.colourBy === 'stage' ? rgb(base) : mixed(rgb(base), [255, 255, 255], code.letters === 'STEP' ? 0 : code.shade);
        code.rgb = dimmed ? mixed(shaded, this.page, 0.8) : shaded;
        code.css = css(code.rgb);
      }
    }
    this.intervalColours = [...this.data.phases, ...this.data.causes].map(entry => rgb(entry.colour));
    this.drawLegend(dimmed);
    this.stripBusy = null;
  }

  // Returns the colour of an interval, or null if it has the colour of idle time.
  intervalColour(run, info) {
    if (info < 0 || (this.cause === null && this.colourBy !== 'cause')) return null;
    const {partFirst, part, time} = run.causes, phases = this.data.phases.length;
    let bit = -1, most = 0, sum = 0;
    for (let i = partFirst[info]; i < partFirst[info + 1]; ++i) {
      sum += Math.max(0, time[i]);
      if (time[i] > most) { most = time[i]; bit = part[i]; }
    }
    if (this.cause === null) {
      if (bit < 0) return null;
      return this.intervalColours[bit === 0 ? run.causes.phase[info] : phases + bit - 1];
    }
    const amount = this.partOf(run, info, this.cause);
    if (amount <= 0) return null;
    const number = +this.cause.slice(5), colour = this.intervalColours[this.cause.startsWith('phase') ? number : phases + number];
    return mixed(this.idle, colour, 0.35 + 0.65 * Math.min(1, amount / sum));
  }

  partOf(run, info, cause) {
    const number = +cause.slice(5), isPhase = cause.startsWith('phase'), {partFirst, part, time} = run.causes;
    if (isPhase && run.causes.phase[info] !== number) return 0;
    for (let i = partFirst[info]; i < partFirst[info + 1]; ++i) if (part[i] === (isPhase ? 0 : number + 1)) return time[i];
    return 0;
  }

  drawLegend(dimmed) {
    const entries = [];
    if (dimmed) {
      for (const entry of [...this.data.phases, ...this.data.causes]) {
        const id = (this.data.phases.includes(entry) ? 'phase' + this.data.phases.indexOf(entry) : 'cause' + this.data.causes.indexOf(entry));
        const occurs = this.runs.some(run => run.causes.phase.some((phase, info) => this.partOf(run, info, id) > 0));
        if (occurs && (this.cause === null || this.cause === id)) entries.push([entry.name, entry.colour]);
      }
    } else if (this.colourBy === 'stage') {
      const stages = [...new Set(this.runs.flatMap(run => run.codes.map(code => code.stage)))].sort((a, b) => a - b);
      for (const stage of stages.slice(0, 8)) entries.push([`stage ${stage}${stages.length > 8 ? ', and every eighth from it' : ''}`,
        this.data.stages[stage % this.data.stages.length]]);
    } else {
      for (const kind of this.data.kinds)
        if (this.runs.some(run => run.codes.some(code => code.letters === kind.letters)) && !kind.receive)
          entries.push([kind.name, kind.colour]);
      if (this.runs.some(run => run.codes.some(code => code.shade > 0))) entries.push(['paler: later stage of the rank', null]);
    }
    entries.push(['idle', css(this.idle)]);
    if (this.memory) for (const category of this.memory.categories) entries.push([category.name + ' (memory)', category.colour]);
    this.legend.replaceChildren(...entries.map(([name, colour]) => {
      const square = element('i');
      if (colour) square.style.background = colour;
      return element('span', {}, colour ? square : '', name);
    }));
  }

  changeTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = isDark ? 'light' : 'dark';
    for (const viewer of viewers) { viewer.recolour(); viewer.redraw(); }
  }

  // --- the visible part ---

  show(from, to) {
    const length = Math.min(this.makespan, Math.max(LEAST_WINDOW, to - from));
    this.from = Math.min(this.makespan - length, Math.max(0, from));
    this.to = this.from + length;
    this.redraw();
    this.writeAddress();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    const length = Math.min(this.makespan, Math.max(LEAST_WINDOW, (this.to - this.from) * factor));
    const from = at - (at - this.from) * length / (this.to - this.from);
    this.show(from, from + length);
  }

  pan(share) { const by = share * (this.to - this.from); this.show(this.from + by, this.to + by); }

  readAddress() {
    const address = new URLSearchParams(location.hash.slice(1));
    const from = Number(address.get('from') || 0), to = Number(address.get('to') || this.makespan), rank = Number(address.get('rank'));
    if (from >= 0 && to > from) { this.from = Math.min(from, this.makespan); this.to = Math.min(to, this.makespan); }
    if (!(this.to > this.from)) { this.from = 0; this.to = this.makespan; }
    if (address.has('rank') && Number.isInteger(rank) && rank >= 0 && rank < this.runs[0].ranks.length) this.rank = rank;
    const button = this.causeButtons.find(([id, b]) => b.textContent === address.get('cause'));
    if (button) { this.cause = button[0]; button[1].setAttribute('aria-pressed', true); }
  }

  writeAddress() {
    if (!this.isFirst) return;
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => {
      const address = new URLSearchParams();
      if (this.from > 0 || this.to < this.makespan) {
        address.set('from', Math.round(this.from));
        address.set('to', Math.round(this.to));
      }
      if (this.memory) address.set('rank', this.rank);
      const chosen = this.causeButtons.find(([id]) => id === this.cause);
      if (chosen) address.set('cause', chosen[1].textContent);
      history.replaceState(null, '', '#' + address);
    }, 300);
  }

  // --- drawing ---

  resize() {
    const lanes = this.lanes.length, context = this.canvas.getContext('2d');
    context.font = '11px Helvetica, Arial, sans-serif';
    this.laneHeight = Math.max(3, Math.min(22, Math.floor(560 / Math.max(1, lanes))));
    this.gap = this.laneHeight >= 14 ? 5 : this.laneHeight >= 7 ? 2 : 0;
    this.groupGap = this.runs.length > 1 ? 5 : 0;
    let top = 2;
    for (const lane of this.lanes) {
      if (lane.first && lane !== this.lanes[0]) top += this.groupGap;
      lane.top = lane.rank.top = top;
      top += this.laneHeight + this.gap;
    }
    this.left = Math.ceil(Math.max(0, ...this.lanes.map(lane => context.measureText(lane.label).width))) + 8;
    this.width = Math.max(120, this.root.clientWidth);
    this.height = top + AXIS;
    this.canvas.style.height = this.height + 'px';
    this.ratio = Math.min(3, window.devicePixelRatio || 1);
    for (const canvas of [this.strip, this.canvas, this.memoryCanvas]) {
      if (!canvas) continue;
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(parseFloat(canvas.style.height) * this.ratio);
    }
    this.plot = this.width - this.left - 8;
    this.pixels = Math.max(1, Math.round(this.plot * this.ratio));
    this.small = element('canvas');
    this.small.width = this.pixels;
    this.small.height = Math.max(1, lanes);
    this.image = this.small.getContext('2d').createImageData(this.pixels, Math.max(1, lanes));
    this.sums = new Float32Array(4 * this.pixels);
    this.stripBusy = null;
    this.draw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  x(time) { return this.left + (time - this.from) / (this.to - this.from) * this.plot; }
  timeAt(x) { return this.from + (x - this.left) / this.plot * (this.to - this.from); }

  draw() {
    const began = performance.now(), context = this.canvas.getContext('2d');
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = css(this.page);
    context.fillRect(0, 0, this.width, this.height);
    this.beginBoxes();
    this.image.data.fill(0);
    const mixedRows = this.lanes.map((lane, row) => this.gatherLane(lane, row));
    context.fillStyle = css(this.idle);
    for (const lane of this.lanes) context.fillRect(this.left, lane.top, this.plot, this.laneHeight);
    if (mixedRows.includes(true)) this.small.getContext('2d').putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    this.lanes.forEach((lane, row) => {
      if (mixedRows[row]) context.drawImage(this.small, 0, row, this.pixels, 1, this.left, lane.top, this.plot, this.laneHeight);
    });
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.plot, this.height);
    context.clip();
    for (const [colour, rectangles] of this.boxes) {
      if (rectangles.length > 0) context.fillStyle = colour;
      for (let i = 0; i < rectangles.length; i += 4)
        context.fillRect(rectangles[i], rectangles[i + 1], rectangles[i + 2], rectangles[i + 3]);
    }
    this.drawNames(context);
    if (this.shown.collectives) this.drawCollectives(context);
    this.messagesShown = this.shown.messages ? this.drawMessages(context) : 0;
    if (this.shown.path) for (const run of this.runs) { readChains(run); this.drawChain(context, run, run.critical, '#d00000'); }
    this.drawHovered(context);
    this.drawLeftOut(context);
    context.restore();
    this.drawLabels(context);
    this.drawStrip();
    if (this.memory) this.drawMemory();
    this.updateStatus();
    return performance.now() - began;
  }

  beginBoxes() {
    this.boxes = new Map();
    this.names = [];
    this.marks = [];
    for (const run of this.runs) for (const code of run.codes) code.boxes = this.boxesOf(code.css);
  }

  // Adds a colour to the columns of pixels from `x0` to `x1`, which are device pixels from the left of the plot.
  add(x0, x1, colour) {
    const sums = this.sums;
    x0 = Math.max(0, x0);
    x1 = Math.min(this.pixels, x1);
    if (!(x0 < x1)) return;
    this.firstMixed = Math.min(this.firstMixed, Math.floor(x0));
    this.lastMixed = Math.max(this.lastMixed, Math.ceil(x1));
    for (let column = Math.floor(x0); column < x1; ++column) {
      const weight = Math.min(x1, column + 1) - Math.max(x0, column);
      sums[4 * column] += weight * colour[0];
      sums[4 * column + 1] += weight * colour[1];
      sums[4 * column + 2] += weight * colour[2];
      sums[4 * column + 3] += weight;
    }
  }

  // Returns the list of the boxes of a colour: x, y, width and height of each.
  boxesOf(colour) {
    let list = this.boxes.get(colour);
    if (!list) this.boxes.set(colour, list = []);
    return list;
  }

  // Sorts the visible actions of a lane into narrow ones, which are added to the pixels, and boxes. Returns true if
  // there are narrow ones.
  gatherLane(lane, row) {
    const {run, rank} = lane, spans = run.spans, groups = rank.groups, scale = this.plot / (this.to - this.from);
    this.firstMixed = this.pixels;
    this.lastMixed = 0;
    if (this.cause !== null || this.colourBy === 'cause') this.gatherIdle(lane, scale);
    for (let g = firstAbove(groups.length, i => spans.end[groups[i]], this.from); g < groups.length; ++g) {
      const span = groups[g], start = spans.start[span];
      if (start > this.to) break;  // an optimizer step at the end of the run is visible
      const code = run.codes[spans.code[span]], width = (spans.end[span] - start) * scale, x = this.left + (start - this.from) * scale;
      if (code.letters === 'STEP' && width < 2) { this.marks.push(x, lane.top); continue; }
      if (width < this.leastBox) {
        const second = code.pair ? run.codes[spans.code[span + 1]] : code;
        const colour = second === code ? code.rgb : mixed(code.rgb, second.rgb, 0.5);
        this.add((x - this.left) * this.ratio, (x - this.left + width) * this.ratio, colour);
      } else if (code.pair) {
        const leaves = leavesOf(run, span), height = this.laneHeight / leaves.length;
        leaves.forEach((leaf, i) => this.addBox(run, leaf, x, lane.top + i * height, width, height));
      } else {
        this.addBox(run, span, x, lane.top, width, this.laneHeight);
      }
    }
    const data = this.image.data, sums = this.sums, [red, green, blue] = this.idle;
    for (let column = this.firstMixed, i = 4 * column, out = 4 * (row * this.pixels + column); column < this.lastMixed; ++column, i += 4, out += 4) {
      const weight = sums[i + 3];
      if (weight < 0.01) continue;
      const rest = Math.max(0, 1 - weight), all = weight + rest;
      data[out] = (sums[i] + rest * red) / all;
      data[out + 1] = (sums[i + 1] + rest * green) / all;
      data[out + 2] = (sums[i + 2] + rest * blue) / all;
      data[out + 3] = 255;
    }
    if (this.firstMixed >= this.lastMixed) return false;
    sums.fill(0, 4 * this.firstMixed, 4 * this.lastMixed);
    return true;
  }

  gatherIdle(lane, scale) {
    const {run, rank} = lane, {start, end, info} = rank.intervals;
    for (let i = firstAbove(end.length, k => end[k], this.from); i < end.length && start[i] < this.to; ++i) {
      const colour = this.intervalColour(run, info[i]);
      if (!colour) continue;
      const x = this.left + (start[i] - this.from) * scale, width = (end[i] - start[i]) * scale;
      if (width < this.leastBox) this.add((x - this.left) * this.ratio, (x - this.left + width) * this.ratio, colour);
      else this.boxesOf(css(colour)).push(x, lane.top, width, this.laneHeight);
    }
  }

  addBox(run, span, x, y, width, height) {
    const code = run.codes[run.spans.code[span]];
    const outline = width >= 6 ? 0.7 : 0;
    code.boxes.push(x, y, width - outline, height - (height < this.laneHeight ? 0.5 : 0));
    if (height < 10 || width < 13) return;
    const number = code.microbatch ? String(run.spans.microbatch[span]) : '', name = code.stage + code.letters + number;
    const text = width >= 6.6 * name.length + 6 ? name : width >= 6.6 * number.length + 5 ? number : '';
    if (text === '') return;
    const left = Math.max(x, this.left), right = Math.min(x + width, this.left + this.plot);
    if (right - left >= 6.6 * text.length + 3) this.names.push([text, (left + right) / 2, y + height / 2, inkOn(code.rgb)]);
  }

  drawNames(context) {
    context.font = '11px Helvetica, Arial, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const [text, x, y, ink] of this.names) { context.fillStyle = ink; context.fillText(text, x, y); }
    context.fillStyle = this.ink;
    const thin = this.marks.length > this.plot ? 0.5 : 1.5;
    for (let i = 0; i < this.marks.length; i += 2) context.fillRect(this.marks[i] - thin / 2, this.marks[i + 1], thin, this.laneHeight);
  }

  drawCollectives(context) {
    for (const {run, rank, top} of this.lanes) {
      const spans = run.spans, list = rank.collectives;
      for (let i = firstAbove(list.length, k => spans.end[list[k]], this.from); i < list.length && spans.start[list[i]] < this.to; ++i) {
        const x = this.x(spans.start[list[i]]);
        context.fillStyle = run.codes[spans.code[list[i]]].css;
        context.fillRect(x, top + this.laneHeight - 3, Math.max(1, this.x(spans.end[list[i]]) - x), 3);
      }
    }
  }

  middle(run, rank) { return run.ranks[rank].top + this.laneHeight / 2; }

  // Draws the visible messages as lines, unless there are too many. Returns the number of visible messages.
  drawMessages(context) {
    const visible = [];
    for (const {run, rank} of this.lanes) {
      const spans = run.spans, list = rank.sent;
      for (let i = firstAbove(list.length, k => spans.start[list[k]], this.from - rank.longestSend); i < list.length; ++i) {
        if (spans.start[list[i]] >= this.to) break;
        if (spans.end[list[i]] > this.from) visible.push([run, list[i]]);
        if (visible.length > MOST_MESSAGES) return visible.length;
      }
    }
    context.lineWidth = 1;
    for (const [run, send] of visible) this.drawMessage(context, run, send);
    return visible.length;
  }

  drawMessage(context, run, send) {
    const spans = run.spans, receive = spans.link[send];
    if (receive < 0) return;
    context.strokeStyle = run.codes[spans.code[send]].css;
    context.beginPath();
    context.moveTo(this.x(spans.start[send]), this.middle(run, spans.rank[send]));
    context.lineTo(this.x(spans.end[receive]), this.middle(run, spans.rank[receive]));
    context.stroke();
  }

  // Draws a chain of causes as one line: along the rank that computes, and from rank to rank with a message.
  drawChain(context, run, links, colour) {
    context.beginPath();
    let isOpen = false;
    for (const link of links) {
      const from = this.x(link.from), to = this.x(link.to), y = this.middle(run, run.spans.rank[link.span]) + 0.35 * this.laneHeight;
      if (to < this.left - 50 || from > this.left + this.plot + 50) { isOpen = false; continue; }
      if (isOpen) context.lineTo(from, y); else context.moveTo(from, y);
      if (link.what === COMPUTE || link.what >= COLLECTIVE) context.lineTo(to, y);
      isOpen = true;
    }
    for (const [width, style] of [[4, css(this.page)], [2, colour]]) {
      context.lineWidth = width;
      context.strokeStyle = style;
      context.stroke();
    }
  }

  drawHovered(context) {
    const target = this.hovered;
    if (!target) return;
    const {lane} = target, {run, rank} = lane, spans = run.spans;
    let start, end;
    if (target.action !== undefined) {
      start = spans.start[target.action];
      end = spans.end[target.action];
      for (const message of this.messagesOf(run, rank, target.action)) {
        context.lineWidth = 2;
        this.drawMessage(context, run, message.send);
      }
    } else {
      start = rank.intervals.start[target.interval];
      end = rank.intervals.end[target.interval];
      const info = rank.intervals.info[target.interval];
      if (info >= 0) this.drawChain(context, run, chainBefore(run, info), '#d00000');
    }
    context.lineWidth = 1.5;
    context.strokeStyle = this.ink;
    context.strokeRect(this.x(start), lane.top, Math.max(1, this.x(end) - this.x(start)), this.laneHeight);
  }

  drawLeftOut(context) {
    for (const lane of this.lanes) {
      if (!lane.run.leftOut) continue;
      const from = this.x(lane.run.leftOut[0]), to = this.x(lane.run.leftOut[1]);
      context.fillStyle = css(this.page);
      context.fillRect(from, lane.top, to - from, this.laneHeight);
      context.fillStyle = this.line;
      context.fillRect(from, lane.top + this.laneHeight / 2, to - from, 1);
    }
  }

  drawLabels(context) {
    context.fillStyle = this.ink;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    const every = Math.ceil(12 / (this.laneHeight + this.gap));
    this.lanes.forEach((lane, row) => {
      if (row % every === 0 || lane.number === this.rank && this.memory) {
        context.font = `${this.memory && lane.number === this.rank ? 'bold ' : ''}11px Helvetica, Arial, sans-serif`;
        context.fillText(lane.label, this.left - 6, lane.top + this.laneHeight / 2);
      }
    });
    context.font = '11px Helvetica, Arial, sans-serif';
    context.textAlign = 'center';
    const least = (this.to - this.from) / Math.max(2, this.plot / 90), power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map(factor => factor * power).find(s => s >= least * (1 - 1e-9));
    const y = this.height - AXIS + 2;
    for (let i = Math.ceil(this.from / step - 1e-9); i * step <= this.to * (1 + 1e-9); ++i) {
      const x = this.x(i * step), text = i ? `${+(i * step / this.unit[1]).toPrecision(12)} ${this.unit[2]}` : '0';
      const half = context.measureText(text).width / 2;
      context.fillRect(x, y, 1, 4);
      context.fillText(text, Math.min(this.width - half, Math.max(half, x)), y + 11);
    }
  }

  // Draws how many ranks are busy over the whole run, and the visible part.
  drawStrip() {
    const context = this.strip.getContext('2d'), height = 32;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, height + 2);
    const columns = Math.floor(this.plot);
    if (!this.stripBusy) {
      const busy = this.stripBusy = new Float32Array(columns + 1), scale = columns / this.makespan;
      for (const {run, rank} of this.lanes) {
        for (const span of rank.groups) {
          const x0 = run.spans.start[span] * scale, x1 = run.spans.end[span] * scale;
          for (let c = Math.floor(x0); c < x1; ++c) busy[c] += Math.min(x1, c + 1) - Math.max(x0, c);
        }
      }
    }
    context.fillStyle = css(this.idle);
    context.fillRect(this.left, 0, this.plot, height);
    context.fillStyle = this.faint;
    for (let c = 0; c < columns; ++c) {
      const share = Math.min(1, this.stripBusy[c] / Math.max(1, this.lanes.length)) * (height - 2);
      context.fillRect(this.left + c, height - share, 1, share);
    }
    const from = this.left + this.from / this.makespan * this.plot, to = this.left + this.to / this.makespan * this.plot;
    context.globalAlpha = 0.65;
    context.fillStyle = css(this.page);
    context.fillRect(this.left, 0, from - this.left, height);
    context.fillRect(to, 0, this.left + this.plot - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = this.ink;
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, 0.5, Math.max(2, to - from - 1), height - 1);
    context.fillStyle = this.ink;
    context.font = '11px Helvetica, Arial, sans-serif';
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillText('busy', this.left - 6, height / 2);
  }

  amountText(amount) {
    return this.memory.unit === 'bytes' ? bytesText(amount)
      : `${+(amount / this.memory.parts).toFixed(3)} activations`;
  }

  // Draws the memory of the chosen rank. Of the samples in one column of pixels it draws the largest.
  drawMemory() {
    const context = this.memoryCanvas.getContext('2d'), height = 108, rank = this.memory.ranks[this.rank];
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, height + 2);
    this.memoryTitle.textContent = `Memory of rank ${this.rank}: peak ${this.amountText(rank.peak)}` +
      (rank.usable === null ? '' : ` of ${this.amountText(rank.usable)} usable`);
    const highest = Math.max(1, ...this.memory.ranks.map(other => other.peak));
    const hasLimit = rank.usable !== null && rank.usable <= 2 * highest;
    const top = hasLimit ? Math.max(highest, rank.usable) : highest;
    const y = amount => height - amount / top * (height - 4);
    context.fillStyle = css(this.idle);
    context.fillRect(this.left, 0, this.plot, height);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.plot, height);
    context.clip();
    const total = i => rank.amounts.reduce((sum, amounts) => sum + amounts[i], 0);
    let i = Math.max(0, firstAbove(rank.samples, k => rank.time[k], this.from) - 1);
    while (i < rank.samples && rank.time[i] < this.to) {
      const x0 = Math.max(this.left, this.x(rank.time[i]));
      let best = i, next = i + 1;
      while (next < rank.samples && this.x(rank.time[next]) < x0 + 1) { if (total(next) > total(best)) best = next; ++next; }
      const x1 = next < rank.samples ? this.x(rank.time[next]) : this.left + this.plot;
      let sum = 0;
      rank.amounts.forEach((amounts, c) => {
        if (amounts[best] <= 0) return;
        const low = y(sum), high = y(sum += amounts[best]);
        context.fillStyle = this.memory.categories[c].colour;
        context.fillRect(x0, high, x1 - x0 + 0.5, low - high);
      });
      i = next;
    }
    if (hasLimit) {
      context.strokeStyle = '#d00000';
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(this.left, y(rank.usable));
      context.lineTo(this.left + this.plot, y(rank.usable));
      context.stroke();
      context.setLineDash([]);
    }
    context.restore();
  }

  updateStatus() {
    const parts = [`${this.time(this.from)} to ${this.time(this.to)}`];
    if (this.messagesShown > MOST_MESSAGES) parts.push('zoom in to see messages');
    if (this.runs.some(run => run.leftOut)) parts.push('this page holds only the beginning and the end of the run');
    if (this.found) parts.push(this.found);
    this.status.textContent = parts.join('; ');
  }

  // --- what lies under the pointer ---

  targetAt(x, y) {
    const lane = this.lanes.find(l => y >= l.top && y < l.top + this.laneHeight);
    if (!lane || x < this.left || x > this.left + this.plot) return null;
    return this.targetIn(lane, this.timeAt(x));
  }

  targetIn(lane, time) {
    const {run, rank} = lane, spans = run.spans;
    const g = firstAbove(rank.groups.length, i => spans.end[rank.groups[i]], time);
    if (g < rank.groups.length && spans.start[rank.groups[g]] <= time) return {lane, action: rank.groups[g]};
    const {start, end} = rank.intervals, i = firstAbove(end.length, k => end[k], time);
    return i < end.length && start[i] <= time ? {lane, interval: i} : null;
  }

  // Returns the messages that an action reads (input) and writes.
  messagesOf(run, rank, action) {
    const spans = run.spans, messages = [], end = rank.first + rank.spans;
    for (const leaf of leavesOf(run, action)) {
      const code = run.codes[spans.code[leaf]], direction = code.letters === 'F' || code.letters === 'R' ? 'F' : 'B';
      for (let i = Math.max(rank.first, leaf - 400); i < Math.min(end, leaf + 400); ++i) {
        const other = run.codes[spans.code[i]];
        if (spans.microbatch[i] !== spans.microbatch[leaf] || other.stage !== code.stage || spans.link[i] < 0) continue;
        if (other.receive && i < leaf && other.letters === 'RECV_' + direction) messages.push({send: spans.link[i], isInput: true});
        if (other.send && i > leaf && other.letters === 'SEND_' + direction) messages.push({send: i, isInput: false});
      }
    }
    return messages;
  }

  textOf(target) {
    const {run, rank} = target.lane;
    return target.action !== undefined ? this.actionText(run, rank, target.action, target.lane)
      : this.intervalText(run, rank, target.interval, target.lane);
  }

  actionText(run, rank, action, lane) {
    const spans = run.spans, span = ns => this.time(ns);
    const lines = [`${groupName(run, action)} on ${rank.name}${rank.device ? ', ' + rank.device : ''}`,
      `${span(spans.start[action])} to ${span(spans.end[action])} (${span(spans.end[action] - spans.start[action])})`];
    lines.push(`weight version ${leavesOf(run, action).map(leaf => spans.version[leaf]).join(' and ')}`);
    readChains(run);
    if (run.explained) lines.push(run.isCritical.has(action) ? 'on the critical path' : 'not on the critical path');
    for (const {send, isInput} of this.messagesOf(run, rank, action)) {
      const receive = spans.link[send];
      lines.push(isInput ? `input ${spanName(run, send)} of rank ${spans.rank[send]}: ${span(spans.start[send])} to ${span(spans.end[receive])}`
        : `output to rank ${spans.rank[receive]}: ${span(spans.start[send])} to ${span(spans.end[receive])}`);
    }
    const twin = this.twinOf(run, lane.number, action);
    if (twin) {
      const other = twin.run.spans, difference = ns => (ns > 0 ? '+' : '') + span(ns);
      lines.push(`${twin.run.name}: ${span(other.start[twin.span])} to ${span(other.end[twin.span])}`,
        `${twin.run.name} minus ${run.name}: start ${difference(other.start[twin.span] - spans.start[action])}, duration ` +
        difference(other.end[twin.span] - other.start[twin.span] - spans.end[action] + spans.start[action]));
    }
    return lines.join('\n');
  }

  // Returns the same action in the other run of a comparison.
  twinOf(run, rank, action) {
    const other = this.runs.find(candidate => candidate !== run);
    if (!other) return null;
    const spans = run.spans, code = run.codes[spans.code[action]];
    for (const span of other.ranks[rank].groups) {
      const twin = other.codes[other.spans.code[span]];
      if (twin.number === code.number && twin.stage === code.stage && other.spans.microbatch[span] === spans.microbatch[action] &&
          other.spans.version[span] === spans.version[action]) return {run: other, span};
    }
    return null;
  }

  intervalText(run, rank, number, lane) {
    const {start, end, group, info} = rank.intervals, time = ns => this.time(ns);
    const before = group[number] < rank.groups.length ? `before ${groupName(run, rank.groups[group[number]])}` : 'at the end';
    const lines = [`${rank.name} idle ${time(end[number] - start[number])} ${before}`];
    const place = info[number];
    if (place < 0) return lines.concat(`${time(start[number])} to ${time(end[number])}`).join('\n');
    const chain = chainBefore(run, place), names = ['', ...this.data.causes.map(cause => cause.name)];
    names[0] = this.data.phases[run.causes.phase[place]].name;
    const computes = chain.filter(link => link.what === COMPUTE && run.spans.rank[link.span] !== lane.number);
    const awaited = computes.length ? computes[computes.length - 1] : null;
    if (awaited) {
      lines.push(`waits for ${groupName(run, awaited.span)} of rank ${run.spans.rank[awaited.span]} (until ${time(awaited.to)})`);
      if (end[number] > awaited.to) lines.push(`and its message, ${time(end[number] - awaited.to)}`);
    }
    const {partFirst, part, time: times} = run.causes, found = [];
    for (let i = partFirst[place]; i < partFirst[place + 1]; ++i) found.push([part[i], times[i]]);
    const parts = found.sort((a, b) => b[1] - a[1]).map(([bit, ns]) =>
      ns > 0 ? `${names[bit]} ${time(ns)}` : `less ${time(-ns)} of ${names[bit]}`);
    lines.push(`because of ${parts.join(', ')}`);
    if (chain.length > MOST_CHAIN_LINES) lines.push(`${chain.length - MOST_CHAIN_LINES} earlier steps, then`);
    for (const link of chain.slice(-MOST_CHAIN_LINES)) lines.push(`${time(link.from)} to ${time(link.to)}: ` +
      `${groupName(run, link.span)} ${CHAIN_WORDS[link.what]} ${run.spans.rank[link.span]}`);
    const ready = run.causes.ready[place];
    lines.push(ready < 0 ? 'nothing later in its list was ready' : `${groupName(run, ready)}, which is later in its list, was ready`);
    return lines.join('\n');
  }

  hover(target, x, y) {
    const same = target && this.hovered && target.lane === this.hovered.lane && target.action === this.hovered.action &&
      target.interval === this.hovered.interval;
    this.hovered = target;
    this.tip.style.display = target ? 'block' : 'none';
    if (target) {
      if (!same) this.tip.textContent = this.textOf(target);
      this.tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - this.tip.offsetWidth - 8)) + 'px';
      const below = y + 16, height = this.tip.offsetHeight;
      this.tip.style.top = (below + height > innerHeight && y - height - 10 > 0 ? y - height - 10 : below) + 'px';
    }
    if (!same) this.redraw();
  }

  // --- search ---

  find(text) {
    const query = text.trim();
    this.hits = [];
    this.hit = -1;
    this.found = '';
    let match;
    if ((match = query.match(/^rank\s*(\d+)$/i))) {
      if (+match[1] < this.runs[0].ranks.length) { this.rank = +match[1]; this.found = `rank ${this.rank} is chosen`; }
    } else if ((match = query.match(/^idle\s*>\s*([\d.]+)\s*(ns|us|ms|s)$/i))) {
      const least = +match[1] * {ns: 1, us: 1e3, ms: 1e6, s: 1e9}[match[2].toLowerCase()];
      this.hitIntervals((run, info, length) => length > least);
    } else if ((match = query.match(/^cause:\s*(.+)$/i))) {
      const name = match[1].toLowerCase(), phase = this.data.phases.findIndex(p => p.name === name);
      const id = phase >= 0 ? 'phase' + phase : 'cause' + this.data.causes.findIndex(c => c.name === name);
      this.hitIntervals((run, info) => info >= 0 && this.partOf(run, info, id) > 0);
    } else if ((match = query.match(/^(\d+)([a-z_]+)(\d*)$/i))) {
      const letters = match[2].toUpperCase(), stage = +match[1], microbatch = match[3] === '' ? -1 : +match[3];
      for (const run of this.runs) {
        for (let span = 0; span < run.count; ++span) {
          const code = run.codes[run.spans.code[span]];
          if (code.stage === stage && code.letters === letters && run.spans.microbatch[span] === microbatch)
            this.hits.push({run, rank: run.spans.rank[span], from: run.spans.start[span], to: run.spans.end[span], name: spanName(run, span)});
        }
      }
    }
    this.hits.sort((a, b) => a.from - b.from);
    if (this.hits.length > 0) this.nextHit(1);
    else if (query && !this.found) this.found = 'nothing found';
    this.redraw();
  }

  hitIntervals(matches) {
    for (const run of this.runs) {
      run.ranks.forEach((rank, number) => {
        const {start, end, info} = rank.intervals;
        for (let i = 0; i < start.length; ++i)
          if (matches(run, info[i], end[i] - start[i]))
            this.hits.push({run, rank: number, from: start[i], to: end[i], name: `idle ${this.time(end[i] - start[i])}`});
      });
    }
  }

  nextHit(step) {
    if (this.hits.length === 0) return;
    this.hit = (this.hit + step + this.hits.length) % this.hits.length;
    const {run, rank, from, to, name} = this.hits[this.hit];
    this.rank = rank;
    this.found = `${this.hit + 1} of ${this.hits.length}: ${name} on rank ${rank}`;
    const length = Math.min(this.to - this.from, Math.max(20 * (to - from), this.makespan / 1e4, LEAST_WINDOW));
    const middle = (from + to) / 2;
    this.show(middle - length / 2, middle + length / 2);
    const lane = this.lanes.find(l => l.run === run && l.number === rank);
    this.hovered = this.targetIn(lane, middle);
  }

  save(blob, name) {
    const link = element('a', {href: URL.createObjectURL(blob), download: name});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  saveSvg() {
    const text = this.svg();
    if (text) this.save(new Blob([text], {type: 'image/svg+xml'}), 'timeline.svg');
    this.found = text ? '' : `zoom in: an SVG has at most ${MOST_SVG_BOXES} boxes`;
    this.updateStatus();
  }

  // Returns the lanes as an SVG picture, in which also narrow actions are boxes. Returns nothing if there are too many.
  svg() {
    this.beginBoxes();
    this.leastBox = 0;
    this.lanes.forEach((lane, row) => this.gatherLane(lane, row));
    this.leastBox = LEAST_BOX;
    const count = [...this.boxes.values()].reduce((sum, list) => sum + list.length / 4, 0);
    if (count > MOST_SVG_BOXES) return '';
    const escaped = text => text.replace(/[&<>"]/g, letter => `&#${letter.charCodeAt(0)};`), n = number => +number.toFixed(2);
    const rectangle = (x, y, width, height, fill) => `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="${fill}"/>\n`;
    let out = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${n(this.width)} ${n(this.height)}" font-family="Helvetica, Arial, sans-serif" font-size="11">\n` +
      rectangle(0, 0, this.width, this.height, css(this.page));
    for (const lane of this.lanes) {
      out += rectangle(this.left, lane.top, this.plot, this.laneHeight, css(this.idle)) +
        `<text x="${this.left - 6}" y="${n(lane.top + this.laneHeight / 2 + 4)}" text-anchor="end" fill="${this.ink}">${escaped(lane.label)}</text>\n`;
    }
    out += `<clipPath id="plot"><rect x="${this.left}" y="0" width="${n(this.plot)}" height="${n(this.height)}"/></clipPath>\n<g clip-path="url(#plot)">\n`;
    for (const [colour, list] of this.boxes)
      for (let i = 0; i < list.length; i += 4) out += rectangle(list[i], list[i + 1], list[i + 2], list[i + 3], colour);
    for (let i = 0; i < this.marks.length; i += 2) out += rectangle(this.marks[i] - 0.75, this.marks[i + 1], 1.5, this.laneHeight, this.ink);
    for (const [text, x, y, ink] of this.names)
      out += `<text x="${n(x)}" y="${n(y + 4)}" text-anchor="middle" fill="${ink}">${escaped(text)}</text>\n`;
    return out + `</g>\n<text x="${this.left}" y="${n(this.height - 6)}" fill="${this.ink}">${this.time(this.from)} to ${this.time(this.to)}</text>\n</svg>\n`;
  }

  // --- events ---

  listen() {
    const place = event => {
      const frame = this.canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    this.canvas.addEventListener('wheel', event => {
      event.preventDefault();
      const amount = event.deltaY || event.deltaX;
      if (event.shiftKey) this.pan(Math.sign(amount) * 0.1);
      else this.zoom(Math.exp(Math.max(-1, Math.min(1, amount * (event.deltaMode ? 0.05 : 0.002)))), this.timeAt(place(event)[0]));
    }, {passive: false});
    this.canvas.addEventListener('pointerdown', event => {
      active = this;
      this.canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event)[0]);
      this.moved = 0;
    });
    this.canvas.addEventListener('pointermove', event => {
      const [x, y] = place(event), before = this.pointers.get(event.pointerId);
      if (before === undefined) { this.hover(this.targetAt(x, y), event.clientX, event.clientY); return; }
      this.moved += Math.abs(x - before);
      if (this.pointers.size === 1) {
        const by = (before - x) / this.plot * (this.to - this.from);
        this.show(this.from + by, this.to + by);
      } else {
        const [, other] = [...this.pointers].find(([id]) => id !== event.pointerId);
        const was = Math.max(10, Math.abs(before - other)), is = Math.max(10, Math.abs(x - other));
        this.zoom(was / is, this.timeAt((x + other) / 2));
      }
      this.pointers.set(event.pointerId, x);
    });
    const end = event => {
      const [x, y] = place(event), wasDown = this.pointers.delete(event.pointerId);
      if (!wasDown || this.moved > 4 || event.type === 'pointercancel') return;
      const target = this.targetAt(x, y);
      if (target) { this.rank = target.lane.number; this.writeAddress(); }
      this.hover(target, event.clientX, event.clientY);
      this.redraw();
    };
    this.canvas.addEventListener('pointerup', end);
    this.canvas.addEventListener('pointercancel', end);
    this.canvas.addEventListener('pointerleave', () => { if (this.pointers.size === 0) this.hover(null); });
    this.canvas.addEventListener('dblclick', () => this.show(0, this.makespan));
    const center = event => {
      if (!(event.buttons & 1) && event.type !== 'pointerdown') return;
      const frame = this.strip.getBoundingClientRect(), half = (this.to - this.from) / 2;
      const at = (event.clientX - frame.left - this.left) / this.plot * this.makespan;
      this.show(at - half, at + half);
    };
    this.strip.addEventListener('pointerdown', event => { this.strip.setPointerCapture(event.pointerId); center(event); });
    this.strip.addEventListener('pointermove', center);
    new ResizeObserver(() => { if (this.root.clientWidth !== this.width && this.root.clientWidth >= 120) this.resize(); }).observe(this.root);
  }

  key(event) {
    const chooseRank = step => {
      this.rank = Math.max(0, Math.min(this.runs[0].ranks.length - 1, this.rank + step));
      this.redraw();
      this.writeAddress();
    };
    const actions = {ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), '+': () => this.zoom(0.5),
      '=': () => this.zoom(0.5), '-': () => this.zoom(2), '0': () => this.show(0, this.makespan),
      n: () => this.nextHit(1), p: () => this.nextHit(-1), c: () => this.toggle('path'), m: () => this.toggle('messages'),
      s: () => this.toggle('collectives'), t: () => this.changeTheme(), '/': () => this.search.focus(), Escape: () => this.hover(null)};
    // On the rest of the page these keys scroll.
    if (document.activeElement === this.canvas)
      Object.assign(actions, {ArrowUp: () => chooseRank(-1), ArrowDown: () => chooseRank(1)});
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // Returns the actions as the data has them. Tests compare them with the timeline.
  actions() {
    return this.runs.map(run => Array.from({length: run.count}, (_, span) =>
      [run.spans.rank[span], spanName(run, span), run.spans.start[span], run.spans.end[span]]));
  }
}

const viewers = [];
let active = null;

async function start() {
  for (const root of document.querySelectorAll('.viewer')) {
    const packed = root.querySelector('script'), picture = root.querySelector('figure');
    try {
      const data = readRuns(await penstock.unpacked(packed.textContent));
      picture.remove();
      packed.remove();
      viewers.push(new Viewer(root, data, viewers.length === 0));
    } catch (error) {
      root.prepend(element('p', {class: 'alarm'}, `The timeline cannot be shown: ${error.message}`));
    }
  }
  active = viewers[0] || null;
  return viewers;
}

penstock.start = start;
addEventListener('keydown', event => {
  const isText = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (active && !isText && !event.ctrlKey && !event.metaKey && !event.altKey) active.key(event);
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const viewer of viewers) { viewer.recolour(); viewer.redraw(); }
});
for (const type of ['beforeprint', 'afterprint'])
  addEventListener(type, () => { for (const viewer of viewers) { viewer.recolour(); viewer.draw(); } });
})();
