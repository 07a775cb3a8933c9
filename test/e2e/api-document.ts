import { Ajv2020 } from "ajv/dist/2020.js";

interface Reference {
  readonly $ref?: string;
}

/** A schema of a value in a URL, as far as our document goes. */
export interface ValueSchema {
  readonly type: "string" | "integer" | "boolean" | "array";
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maxItems?: number;
  readonly enum?: readonly string[];
  readonly items?: ValueSchema;
}

/** A parameter of the document. */
export interface ApiParameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly schema: ValueSchema;
  readonly example?: unknown;
}

interface ApiResponse extends Reference {
  readonly content?: Readonly<Record<string, { readonly example?: unknown }>>;
}

interface Document {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<
    Record<
      string,
      {
        readonly parameters: readonly ApiParameter[];
        readonly get: { readonly operationId: string; readonly responses: Readonly<Record<string, ApiResponse>> };
      }
    >
  >;
}

/** A GET of the document. */
export interface ApiOperation {
  readonly id: string;
  readonly path: string;
  readonly parameters: readonly ApiParameter[];
  readonly statuses: readonly number[];
}

/** An example of a response body, and where in the document it is. */
export interface BodyExample {
  readonly pointer: string;
  readonly body: unknown;
}

/** What an OpenAPI document says, as a client would read it. */
export class ApiDocument {
  readonly document: Document;
  readonly #schemas = new Ajv2020({ strict: false, validateFormats: false });

  constructor(document: unknown) {
    this.document = document as Document;
    this.#schemas.addSchema(this.document, "openapi.json");
  }

  get operations(): ApiOperation[] {
    return Object.entries(this.document.paths).map(([path, { parameters, get }]) => ({
      id: get.operationId,
      path,
      parameters,
      statuses: Object.keys(get.responses).map(Number),
    }));
  }

  /** Every example of a JSON body. */
  get bodyExamples(): BodyExample[] {
    return this.operations.flatMap(({ path, statuses }) =>
      statuses.flatMap((status) => {
        const { pointer, response } = this.#response(path, status);
        return Object.entries(response?.content ?? {})
          .filter(([type, { example }]) => /json/.test(type) && example !== undefined)
          .map(([type, { example }]) => ({
            pointer: `${pointer}${segment("content")}${segment(type)}`,
            body: example,
          }));
      }),
    );
  }

  /** What the document has against a body; none if it is as it says. */
  problems(operation: ApiOperation, status: number, contentType: string, body: unknown): string[] {
    const { pointer, response } = this.#response(operation.path, status);
    if (response === undefined) return [`${status} is not documented for ${operation.id}`];
    if (response.content?.[contentType] === undefined) return [`${contentType} is not documented for ${operation.id}`];
    return this.problemsAt(`${pointer}${segment("content")}${segment(contentType)}`, body);
  }

  /** The same at a place that has a schema. */
  problemsAt(pointer: string, body: unknown): string[] {
    const validate = this.#schemas.getSchema(`openapi.json#${pointer}/schema`);
    if (validate === undefined) throw new Error(`there is no schema at ${pointer}`);
    validate(body);
    return (validate.errors ?? []).map(({ instancePath, message }) => `${pointer}: ${instancePath} ${message}`);
  }

  #response(path: string, status: number): { readonly pointer: string; readonly response: ApiResponse | undefined } {
    const response = this.document.paths[path]?.get.responses[status];
    const [, reference] = /^#(.*)$/.exec(response?.$ref ?? "") ?? [];
    if (reference === undefined) {
      return { pointer: ["paths", path, "get", "responses", `${status}`].map(segment).join(""), response };
    }
    const names = reference.split("/").slice(1);
    const found = names.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], this.document);
    return { pointer: reference, response: found as ApiResponse };
  }
}

/** A step of a JSON pointer in a URI's fragment (RFC 6901, 6). */
function segment(name: string): string {
  return `/${encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"))}`;
}
