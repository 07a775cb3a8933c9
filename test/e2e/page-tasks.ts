import type { Page } from "playwright-core";

/** A task of a page's main thread: script, style, layout and paint included. */
export interface PageTask {
  /** What it took of the processor, in milliseconds. */
  readonly cpuMs: number;
  /** What it took by the clock, in milliseconds. */
  readonly clockMs: number;
}

/** An event of Chromium's trace; times are in microseconds. */
interface TraceEvent {
  readonly name: string;
  /** X: complete. */
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly dur?: number;
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** Traces a page while `during` runs. @throws Error where the trace has no tasks */
export async function readTasks<T>(page: Page, during: () => Promise<T>): Promise<{ result: T; tasks: PageTask[] }> {
  const browser = page.context().browser();
  if (browser === null) throw new Error("the page's browser is gone");
  await browser.startTracing(page, { categories: ["toplevel"] });
  let result: T;
  let trace: Buffer;
  try {
    result = await during();
  } finally {
    trace = await browser.stopTracing();
  }
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  return { result, tasks: tasksOf(traceEvents) };
}

function tasksOf(events: readonly TraceEvent[]): PageTask[] {
  const thread = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const isMain = ({ name, args }: TraceEvent) => name === "thread_name" && args?.name === "CrRendererMain";
  const mainThreads = new Set(events.filter(isMain).map(thread));
  const tasks = events
    .filter((event) => event.ph === "X" && event.name.endsWith("RunTask") && mainThreads.has(thread(event)))
    // One that was running when the trace began or ended has no CPU time: it counts by the clock.
    .map(({ dur = 0, tdur = dur }) => ({ cpuMs: tdur / 1_000, clockMs: dur / 1_000 }));
  if (tasks.length === 0) throw new Error("the trace has no tasks of the page");
  return tasks;
}
