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
export interface PathTemplate {
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
