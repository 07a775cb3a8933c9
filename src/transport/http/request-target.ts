/** Path and query of a URL, undecoded, without the question mark. */
export interface RequestTarget {
  readonly path: string;
  readonly query: string;
}

/** Splits a request target. The host of the absolute form (`http://host/path`), which proxies use, is dropped. */
export function splitTarget(url: string): RequestTarget {
  let start = 0;
  if (url.charCodeAt(0) !== 0x2f) {
    const authority = url.indexOf("://");
    if (authority > 0) {
      const slash = url.indexOf("/", authority + 3);
      if (slash === -1) return { path: "/", query: "" };
      start = slash;
    }
  }
  const question = url.indexOf("?", start);
  if (question === -1) return { path: url.slice(start), query: "" };
  return { path: url.slice(start, question), query: url.slice(question + 1) };
}
