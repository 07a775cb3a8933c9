import { getOption, hasOption } from "@bufbuild/protobuf";
import { protoCamelCase } from "@bufbuild/protobuf/reflect";
import { http } from "../../../gen/google/api/annotations_pb.js";
import type { HttpRule } from "../../../gen/google/api/http_pb.js";
import { HttpBodySchema } from "../../../gen/google/api/httpbody_pb.js";
import type { Terms } from "../../domain/failure.js";
import type { Api, Method } from "../../domain/service.js";
import { type PathTemplate, parsePathTemplate } from "./path-template.js";
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

interface Node {
  readonly literals: Map<string, Node>;
  variable: Node | undefined;
  route: Route | undefined;
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
  readonly #all: Route[] = [];
  readonly #root = emptyNode();
  readonly #basePath: string;

  /** `basePath` is empty or `/prefix`. */
  constructor(api: Api, basePath = "") {
    if (basePath !== "" && !/^(\/[^/?#]+)+$/.test(basePath)) {
      throw new Error(`base path "${basePath}": takes the form /prefix, without a slash at its end`);
    }
    this.#basePath = basePath;
    this.terms = { field: protoCamelCase, method: (desc) => `GET ${basePath}${getOption(desc, http).pattern.value}` };
    for (const method of api) {
      if (!hasOption(method.desc, http)) continue;
      const rule = getOption(method.desc, http);
      for (const binding of [rule, ...rule.additionalBindings]) this.#add(method, binding);
    }
  }

  /** In the order of the definitions. */
  get all(): readonly Route[] {
    return this.#all;
  }

  /** Finds a path, without its query. */
  match(path: string): RouteMatch | undefined {
    const base = this.#basePath;
    if (!path.startsWith(base) || path.charCodeAt(base.length) !== slash) return undefined;
    const segments: string[] = [];
    const route = find(this.#root, path, base.length + 1, segments);
    return route === undefined ? undefined : { route, segments };
  }

  #add(method: Method, rule: HttpRule): void {
    const name = method.desc.name;
    if (rule.pattern.case !== "get") throw new Error(`${name}: only "get" is served, not ${rule.pattern.case}`);
    if (rule.body !== "" || rule.responseBody !== "") throw new Error(`${name}: body and response_body are not served`);
    const template = parsePathTemplate(rule.pattern.value);
    const pathFields: string[] = [];
    let node = this.#root;
    for (const segment of template.segments) {
      if (segment.kind === "variable") {
        pathFields.push(segment.fieldPath);
        node.variable ??= emptyNode();
        node = node.variable;
      } else {
        const next = node.literals.get(segment.text) ?? emptyNode();
        node.literals.set(segment.text, next);
        node = next;
      }
    }
    if (node.route !== undefined) {
      throw new Error(`${name} and ${node.route.method.desc.name} claim the same path ${template.text}`);
    }
    const alt = method.kind === "unary" ? undefined : isHttpBody(method) ? "media" : "sse";
    node.route = { method, template, parameters: new QueryParameters(method.desc.input, pathFields, alt) };
    this.#all.push(node.route);
  }
}

const slash = 0x2f;

function emptyNode(): Node {
  return { literals: new Map(), variable: undefined, route: undefined };
}

function find(node: Node, path: string, start: number, segments: string[]): Route | undefined {
  const end = path.indexOf("/", start);
  const segment = end === -1 ? path.slice(start) : path.slice(start, end);
  const literal = node.literals.get(decode(segment) ?? segment);
  if (literal !== undefined) {
    const route = end === -1 ? literal.route : find(literal, path, end + 1, segments);
    if (route !== undefined) return route;
  }
  if (node.variable === undefined || segment === "") return undefined;
  segments.push(segment);
  const route = end === -1 ? node.variable.route : find(node.variable, path, end + 1, segments);
  if (route === undefined) segments.pop();
  return route;
}
