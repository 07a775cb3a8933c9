// A plug-in of swagger-ui, which waits for the end of a response before it shows any of it. Streams have no end.

interface Request {
  readonly pathName: string;
  readonly method: string;
  readonly operation: { getIn(path: readonly string[]): unknown };
}

type Component = (props: Readonly<Record<string, unknown>>) => unknown;

interface System {
  readonly React: {
    readonly Fragment: unknown;
    createElement(type: unknown, props: object | null, ...children: readonly unknown[]): unknown;
  };
  readonly specActions: { setResponse(path: string, method: string, response: object): void };
}

/** Of a stream the newest lines are shown, and of each its beginning. */
const linesShownMax = 50;
const lineLengthMax = 2_000;
const showIntervalMs = 250;

/** What ends the streams that are open, by operation. */
const open = new Map<string, AbortController>();

/** URLs whose responses are lines. */
const streamed = new Set<string>();

function keyOf(path: unknown, method: unknown): string {
  return `${method} ${path}`;
}

function isStream({ operation }: Request): boolean {
  return operation.getIn(["responses", "200", "content", "application/x-ndjson"]) !== undefined;
}

/** The newest lines of a text that arrives in pieces. */
class NewestLines {
  readonly #lines: string[] = [];
  #count = 0;
  #rest = "";

  add(piece: string): void {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    this.#count += lines.length;
    this.#lines.push(...lines.map(shortened));
    this.#lines.splice(0, this.#lines.length - linesShownMax);
  }

  get text(): string {
    const left = this.#count - this.#lines.length;
    const lines = [...this.#lines, shortened(this.#rest)].join("\n");
    return left === 0 ? lines : `… ${left} lines before these\n${lines}`;
  }
}

function shortened(line: string): string {
  const left = line.length - lineLengthMax;
  return left <= 0 ? line : `${line.slice(0, lineLengthMax)}… ${left} characters more`;
}

/** Calls back with what there is to show of a response while it arrives. @returns the last of it */
async function follow(response: Response, show: (text: string) => void, signal: AbortSignal): Promise<string> {
  const lines = new NewestLines();
  let shownAtMs = 0;
  try {
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const piece = await reader?.read();
      if (piece === undefined || piece.done) break;
      lines.add(piece.value);
      if (performance.now() < shownAtMs + showIntervalMs) continue;
      shownAtMs = performance.now();
      show(lines.text);
    }
  } catch {
    lines.add(signal.aborted ? "" : "\n… the connection broke");
  }
  return lines.text;
}

/** A fetch for swagger-ui that shows a stream while it arrives. It resolves when the stream ends, or is stopped. */
function streamingFetch({ pathName, method }: Request, { specActions }: System) {
  return async (url: string, init: RequestInit): Promise<Response> => {
    const key = keyOf(pathName, method);
    const stopped = new AbortController();
    open.get(key)?.abort();
    open.set(key, stopped);
    try {
      const response = await fetch(url, { ...init, signal: stopped.signal });
      const { ok, status, statusText, headers } = response;
      // A file is offered for saving, whole.
      if (!ok || headers.has("content-disposition")) return response;
      streamed.add(url);
      const fields = Object.fromEntries(headers);
      const show = (text: string): void => {
        const shown = { ok, url, status, statusText, headers: fields, text, data: text };
        if (open.get(key) === stopped) specActions.setResponse(pathName, method, shown);
      };
      show("");
      return new Response(await follow(response, show, stopped.signal), { status, statusText, headers });
    } finally {
      if (open.get(key) === stopped) open.delete(key);
    }
  };
}

/** Beside "Execute" there is a button that stops an open stream. */
function withStop(Execute: Component, { React }: System): Component {
  return (props) => {
    const stopped = open.get(keyOf(props["path"], props["method"]));
    const execute = React.createElement(Execute, props);
    if (stopped === undefined) return execute;
    const stop = { type: "button", className: "btn cancel", onClick: () => stopped.abort() };
    return React.createElement(React.Fragment, null, execute, React.createElement("button", stop, "Stop"));
  };
}

/** Lines of JSON are no JSON, which swagger-ui would try to read. */
function withLines(ResponseBody: Component, { React }: System): Component {
  return (props) => {
    const isLines = streamed.has(String(props["url"])) && String(props["contentType"]).includes("json");
    return React.createElement(ResponseBody, isLines ? { ...props, contentType: "text/plain" } : props);
  };
}

export function streamPlugin(): object {
  const executeRequest = (execute: (request: object) => unknown, system: System) => (request: Request) =>
    execute(isStream(request) ? { ...request, userFetch: streamingFetch(request, system) } : request);
  return {
    statePlugins: { spec: { wrapActions: { executeRequest } } },
    wrapComponents: { execute: withStop, responseBody: withLines },
  };
}
