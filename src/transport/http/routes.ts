import { getOption, hasOption } from "@bufbuild/protobuf";
import { protoCamelCase } from "@bufbuild/protobuf/reflect";
import { http } from "../../../gen/google/api/annotations_pb.js";
import type { HttpRule } from "../../../gen/google/api/http_pb.js";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { Terms } from "../../domain/failure.js";
import type { Api, Method } from "../../domain/service.js";
import { decode, QueryParameters } from "./query-parameters.js";

/** A path of the HTTP API. */
export interface Route {
  readonly method: Method;
  readonly template: PathTemplate;
  readonly parameters: QueryParameters;
}

/** A path that was found, with the undecoded segments of its variables. */
export interface RouteMatch {
  readonly route: Route;
  readonly segments: readonly string[];
}

/** Whether a method's messages are pieces of a file. */
export function isHttpBody(method: Method): boolean {
  return method.desc.output.typeName === HttpBodySchema.typeName;
}

/**
 * The paths of an API, from the `google.api.http` options of its methods. Literal segments take precedence over
 * variables.
 * @throws Error if two methods have the same path, or an option uses unsupported syntax
 */
export class Routes {
  /** Fields as parameters, methods as their URLs. */
  readonly terms: Terms;
  /** In the order of the definitions. */
  readonly all: readonly Route[];
  /** In the order in which a path is compared with them. */
  readonly #sorted: readonly Route[];
  /** Segments of the longest template. A longer path is not split to its end. */
  readonly #segmentsMax: number;
  readonly #basePath: string;

  /** `basePath` is empty or `/prefix`. */
  constructor(api: Api, basePath = "") {
    if (basePath !== "" && !/^(\/[^/?#]+)+$/.test(basePath)) {
      throw new Error(`base path "${basePath}": takes the form /prefix, without a slash at its end`);
    }
    this.#basePath = basePath;
    this.terms = { field: protoCamelCase, method: (desc) => `GET ${basePath}${getOption(desc, http).pattern.value}` };
    const routes = new Map<string, Route>();
    for (const method of api) {
      if (!hasOption(method.desc, http)) continue;
      const rule = getOption(method.desc, http);
      for (const binding of [rule, ...rule.additionalBindings]) addRoute(routes, method, binding);
    }
    this.all = [...routes.values()];
    this.#sorted = [...routes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, route]) => route);
    this.#segmentsMax = Math.max(...this.all.map(({ template }) => template.segments.length));
  }

  /** Finds a path, without its query. */
  match(path: string): RouteMatch | undefined {
    const base = `${this.#basePath}/`;
    if (!path.startsWith(base)) return undefined;
    const given = path.slice(base.length).split("/", this.#segmentsMax + 1);
    const decoded = given.map((segment) => decode(segment) ?? segment);
    for (const route of this.#sorted) {
      const { segments } = route.template;
      const fits = (part: PathSegment, i: number) =>
        part.kind === "literal" ? decoded[i] === part.text : given[i] !== "";
      if (segments.length !== given.length || !segments.every(fits)) continue;
      return { route, segments: given.filter((_, i) => segments[i]?.kind === "variable") };
    }
    return undefined;
  }
}

/** In place of a variable. No literal has this character, and all of theirs sort before it. */
const variableShape = "\x7f";

function addRoute(routes: Map<string, Route>, method: Method, rule: HttpRule): void {
  const name = method.desc.name;
  if (rule.pattern.case !== "get") throw new Error(`${name}: only "get" is served, not ${rule.pattern.case}`);
  if (rule.body !== "" || rule.responseBody !== "") throw new Error(`${name}: body and response_body are not served`);
  const template = parsePathTemplate(rule.pattern.value);
  const shape = template.segments.map((part) => (part.kind === "literal" ? part.text : variableShape)).join("/");
  const same = routes.get(shape);
  if (same !== undefined) throw new Error(`${name} and ${same.method.desc.name} claim the same path ${template.text}`);
  const pathFields = template.segments.flatMap((part) => (part.kind === "variable" ? [part.fieldPath] : []));
  const alt = method.kind === "unary" ? undefined : isHttpBody(method) ? "media" : "sse";
  routes.set(shape, { method, template, parameters: new QueryParameters(method.desc.input, pathFields, alt) });
}

/**
 * A path of a `google.api.http` option, as far as this service goes:
 *
 *     Template  = "/" Segment { "/" Segment } .
 *     Segment   = LITERAL | Variable .
 *     Variable  = "{" FieldPath [ "=*" ] "}" .
 *     FieldPath = IDENT { "." IDENT } .
 *
 * A variable takes one non-empty segment, so a slash in its value is written `%2F`. The full grammar
 * (https://github.com/googleapis/googleapis/blob/master/google/api/http.proto) also has wildcards that span segments
 * and verbs after a colon; they are refused by name, so that nobody finds out by a route that does not match.
 */
interface PathTemplate {
  readonly text: string;
  readonly segments: readonly PathSegment[];
}

/** A fixed segment, or the field (by its protobuf path) that a segment fills. */
export type PathSegment =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "variable"; readonly fieldPath: string };

const literalPattern = /^[A-Za-z0-9._~!$&'()+,;@-]+$/;
const variablePattern = /^\{([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)(?:=\*)?\}$/;

/** @throws Error naming the position of the segment that is not in the grammar */
export function parsePathTemplate(text: string): PathTemplate {
  if (!text.startsWith("/")) throw new Error(`path template "${text}": begins with a slash`);
  let position = 1;
  const segments = text
    .slice(1)
    .split("/")
    .map((segment) => {
      const parsed = parseSegment(segment);
      if (parsed === undefined) {
        throw new Error(`path template "${text}": "${segment}" at position ${position} is not a literal or {field}`);
      }
      position += segment.length + 1;
      return parsed;
    });
  return { text, segments };
}

function parseSegment(segment: string): PathSegment | undefined {
  const fieldPath = variablePattern.exec(segment)?.[1];
  if (fieldPath !== undefined) return { kind: "variable", fieldPath };
  return literalPattern.test(segment) ? { kind: "literal", text: segment } : undefined;
}

/**
 * Splits a request target into path and query, undecoded and without the question mark. The host of the absolute form
 * (`http://host/path`), which proxies use, is dropped.
 */
export function splitTarget(url: string): { readonly path: string; readonly query: string } {
  let start = 0;
  if (url.charCodeAt(0) !== 0x2f) {
    const authority = url.indexOf("://");
    if (authority > 0) {
      // Behind the host comes a path, or a query without one.
      const end = url.slice(authority + 3).search(/[/?]/);
      if (end === -1) return { path: "/", query: "" };
      start = authority + 3 + end;
      if (url[start] === "?") return { path: "/", query: url.slice(start + 1) };
    }
  }
  const question = url.indexOf("?", start);
  if (question === -1) return { path: url.slice(start), query: "" };
  return { path: url.slice(start, question), query: url.slice(question + 1) };
}
