import { apiUrl, type Query } from "../service/service.js";

/** A call behind what a view shows. */
export interface Call {
  readonly title: string;
  readonly path: string;
  readonly query?: Query;
  /** Default: `datanode.api.v2.TradingDataService`. */
  readonly service?: string;
  /** Of the service. */
  readonly method: string;
  /** The request message as JSON. */
  readonly request: object;
  /** What comes back: one message, a line of JSON for each message, or a CSV. */
  readonly response: "message" | "messages" | "csv";
}

/** Languages in which a call is shown. */
export const languages = ["curl", "grpcurl", "TypeScript", "Python", "Go"] as const;
export type Language = (typeof languages)[number];

const tradingData = "datanode.api.v2.TradingDataService";

/** Text as one word of a shell. */
function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function curl(url: string, { response }: Call): string {
  const flags = { message: "-s", messages: "-sN", csv: "-sOJ" }[response];
  return `curl ${flags} ${shellWord(url)}`;
}

function grpcurl(_url: string, { service = tradingData, method, request }: Call): string {
  const isSecure = location.protocol === "https:";
  const address = `${location.hostname}:${location.port || (isSecure ? "443" : "80")}`;
  const data = JSON.stringify(request);
  return `grpcurl ${isSecure ? "" : "-plaintext "}-d ${shellWord(data)} ${address} ${service}/${method}`;
}

function typescript(url: string, { response }: Call): string {
  const read = {
    message: ["console.log(await response.json());"],
    messages: [
      'let rest = "";',
      "for await (const bytes of response.body ?? []) {",
      '  const lines = (rest + decoder.decode(bytes, { stream: true })).split("\\n");',
      '  rest = lines.pop() ?? "";',
      "  for (const line of lines) console.log(JSON.parse(line).result);",
      "}",
    ],
    csv: ["console.log(await response.text());"],
  }[response];
  return [
    ...(response === "messages" ? ["const decoder = new TextDecoder();"] : []),
    `const response = await fetch(${JSON.stringify(url)});`,
    "if (!response.ok) throw new Error(await response.text());",
    ...read,
  ].join("\n");
}

function python(url: string, { response }: Call): string {
  const read = {
    message: ["    print(json.dumps(json.load(response), indent=2))"],
    messages: ["    for line in response:", '        print(json.loads(line)["result"])'],
    csv: ["    for line in response:", '        print(line.decode().rstrip("\\r\\n"))'],
  }[response];
  const modules = response === "csv" ? "import urllib.request" : "import json\nimport urllib.request";
  return [modules, "", `with urllib.request.urlopen(${JSON.stringify(url)}) as response:`, ...read].join("\n");
}

function go(url: string): string {
  return `package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	response, err := http.Get(${JSON.stringify(url)})
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		log.Fatal(err)
	}
}`;
}

const writers: Readonly<Record<Language, (url: string, call: Call) => string>> = {
  curl,
  grpcurl,
  TypeScript: typescript,
  Python: python,
  Go: go,
};

/** A call as it can be pasted: into a shell, or into a file of its own. */
export function callText(call: Call, language: Language): string {
  return writers[language](apiUrl(call.path, call.query).href, call);
}
