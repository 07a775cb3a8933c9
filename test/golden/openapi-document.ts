import type {
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  FileRegistry,
} from "@bufbuild/protobuf";
import { type Method, serverStreaming, unary } from "../../src/domain/service.js";
import type { Parameter } from "../../src/transport/http/query-parameters.js";
import { isHttpBody, type Route, Routes } from "../../src/transport/http/routes.js";
import { errorMessages, reachable, title } from "./definitions.js";
import {
  type Examples,
  framingText,
  hasEtag,
  headerComponents,
  responseComponents,
  responsesOf,
  streamSchemas,
} from "./openapi-responses.js";
import {
  componentSchema,
  describe,
  messageSchema,
  parameterSchema,
  reference,
  type Schema,
} from "./openapi-schemas.js";

const license = { name: "Apache License 2.0", identifier: "Apache-2.0" };
const headTag = "HEAD";
const tagTexts = ["Questions and streams.", "The same of the past, and streams that begin there."];

const general = `What holds for every URL:
- \`GET\` and \`HEAD\` are served, and \`OPTIONS\` for pages of other origins. Any other method is 405 with \`Allow\`.
- A list is given by repeating its parameter. Names may be in snake_case, too; enum values may be numbers.
- An unknown parameter is an error. Names that begin with \`_\` are ignored.
- Integers of 64 bits are text in JSON. Unset messages and optional fields are left out, all others are written.
- If \`Accept\` matches nothing, the response comes in its default encoding.
- Fields and enum values may be added: ignore those that you do not know.

The same methods are served on the same port over gRPC, gRPC-Web and Connect.`;

/** The HTTP API as an OpenAPI 3.1 document, from the routes and parameters that the server makes of the definitions. */
export function openApiDocument(
  definitions: FileRegistry,
  services: readonly DescService[],
  examples: Examples,
): Schema {
  const { all } = new Routes(services.flatMap(({ methods }) => methods.map(described)));
  const [, version] = /\.(v[0-9]+)$/.exec(services[0]?.file.proto.package ?? "") ?? [];
  const descriptions = services.map((service) => describe(service)).join("\n\n");
  return {
    openapi: "3.1.0",
    info: { title: "marketd", version, description: `${descriptions}\n\n${general}`, license },
    // The service puts its base path here.
    servers: [{ url: "/" }],
    security: [],
    tags: [
      ...services.map(({ name }, index) => ({ name, description: tagTexts[index] })),
      { name: headTag, description: "The same URLs without bodies." },
    ],
    paths: Object.fromEntries(all.map((route) => [pathOf(route), pathItem(route, all, examples)])),
    components: {
      schemas: { ...schemaComponents(services, definitions), ...streamSchemas(all) },
      responses: responseComponents(examples),
      headers: headerComponents,
    },
  };
}

/** A method whose routes are asked for, and nothing else. */
function described(method: DescMethod): Method {
  const notServed = (): never => {
    throw new Error(`${method.name} is not served`);
  };
  if (method.methodKind === "unary") return unary(method as DescMethodUnary, notServed);
  return serverStreaming(method as DescMethodServerStreaming, notServed);
}

/** The path with the parameters' names in place of the fields'. */
function pathOf({ template, parameters }: Route): string {
  const names = parameters.all.filter(({ fromPath }) => fromPath).map(({ name }) => name);
  const segments = template.segments.map((segment) =>
    segment.kind === "literal" ? segment.text : `{${names.shift()}}`,
  );
  return `/${segments.join("/")}`;
}

function pathItem(route: Route, all: readonly Route[], examples: Examples): Schema {
  const { desc } = route.method;
  const sameMethod = all.filter(({ method }) => method === route.method);
  const id = `${desc.name}${sameMethod.indexOf(route) === 0 ? "" : sameMethod.indexOf(route) + 1}`;
  const [summary = "", ...rest] = describe(desc).split(/(?<=\.) /);
  const description = [rest.join(" "), framingText(route)].filter((text) => text !== "").join("\n\n");
  return {
    parameters: parametersOf(route, examples),
    get: {
      operationId: id,
      tags: [desc.parent.name],
      summary,
      description,
      responses: responsesOf(route, examples, false),
    },
    head: {
      operationId: `${id}Head`,
      tags: [headTag],
      summary: `Headers of ${id}.`,
      responses: responsesOf(route, examples, true),
    },
  };
}

function parametersOf(route: Route, examples: Examples): readonly Schema[] {
  const { parameters, method } = route;
  const parts = parameters.all.map((parameter) => ({
    name: parameter.name,
    in: parameter.fromPath ? "path" : "query",
    ...parameterText(parameter),
    schema: parameterSchema(parameter),
    ...exampleOf(parameter.name, examples),
  }));
  const alt = {
    name: "alt",
    in: "query",
    description: `The ${isHttpBody(method) ? "file itself" : "stream as server-sent events"}, whatever \`Accept\` says.`,
    schema: { type: "string", enum: [parameters.alt] },
  };
  const known = {
    name: "If-None-Match",
    in: "header",
    description: "The ETag of an earlier response: 304 if it is still right.",
    schema: { type: "string" },
  };
  return [...parts, ...(parameters.alt === undefined ? [] : [alt]), ...(hasEtag(route) ? [known] : [])];
}

/** Its comment, behind that of what it is in. */
function parameterText({ field, parents, fromPath }: Parameter): Schema {
  const own = describe(field);
  const description = `${describe(parents.at(-1) ?? field.parent)} ${own}`;
  return { description, ...(fromPath || own.startsWith("Required.") ? { required: true } : {}) };
}

function exampleOf(name: string, { parameters }: Examples): Schema {
  return parameters[name] === undefined ? {} : { example: parameters[name] };
}

function schemaComponents(
  services: readonly DescService[],
  definitions: FileRegistry,
): Readonly<Record<string, Schema>> {
  const [status, ...details] = errorMessages(definitions);
  if (status === undefined) throw new Error("the definitions have no message for errors");
  const reached = reachable([...services.flatMap(({ methods }) => methods.map(({ output }) => output)), ...details]);
  const schemas = Object.fromEntries([...reached].map((desc) => [title(desc), componentSchema(desc)]));
  if (Object.keys(schemas).length !== reached.size) throw new Error("two messages have the same name");
  for (const detail of details) {
    const { properties, required, ...rest } = messageSchema(detail);
    const type = { type: "string", const: `type.googleapis.com/${detail.typeName}` };
    schemas[title(detail)] = {
      ...rest,
      properties: { "@type": type, ...properties },
      required: ["@type", ...required],
    };
  }
  const { properties, ...rest } = messageSchema(status);
  const items = {
    oneOf: details.map((detail) => reference("schemas", title(detail))),
    discriminator: {
      propertyName: "@type",
      mapping: Object.fromEntries(
        details.map((detail) => [`type.googleapis.com/${detail.typeName}`, `#/components/schemas/${title(detail)}`]),
      ),
    },
  };
  return {
    ...schemas,
    [title(status)]: { ...rest, properties: { ...properties, details: { ...properties["details"], items } } },
  };
}
