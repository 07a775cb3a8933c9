/** A request's URL in its two halves, undecoded, without the question mark. */
export interface RequestTarget {
  readonly path: string;
  readonly query: string;
}

/** Splits a request target. Of the absolute form that proxies use (`http://host/path`), the host is left out. */
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
