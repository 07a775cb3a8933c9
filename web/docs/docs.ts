import { type Document, liveExamples, withExamples } from "./live-examples.js";
import { streamPlugin } from "./stream-plugin.js";

/** From swagger-ui-bundle.js, which the page loads before. */
declare const SwaggerUIBundle: (options: object) => unknown;

async function getJson(path: string): Promise<unknown> {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: status ${response.status}`);
  return response.json();
}

async function documentToShow(): Promise<Document> {
  const document = (await getJson("openapi.json")) as Document;
  // What the service has can be tried at once. While it cannot tell, the document's own examples do.
  return liveExamples(getJson).then(
    (examples) => withExamples(document, examples),
    () => document,
  );
}

document.documentElement.classList.toggle("dark-mode", matchMedia("(prefers-color-scheme: dark)").matches);
const domNode = document.getElementById("reference");
documentToShow().then(
  (spec) => {
    SwaggerUIBundle({
      spec,
      domNode,
      plugins: [streamPlugin],
      deepLinking: true,
      tryItOutEnabled: true,
      displayRequestDuration: true,
      defaultModelsExpandDepth: 0,
      // Its own host would otherwise be asked whether the document is valid.
      validatorUrl: null,
    });
  },
  (error: Error) => domNode?.append(`The reference cannot be shown: ${error.message}`),
);
