import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type EnvelopedMessage,
  pipe,
  readAllBytes,
  transformDecompressEnvelope,
  transformJoinEnvelopes,
  transformSplitEnvelope,
  type UniversalHandler,
} from "@connectrpc/connect/protocol";
import { compressions } from "./compression.js";

type Body = AsyncIterable<Uint8Array>;

/** Flags of an envelope that holds a message, compressed or not; the other flags mark the end of a stream. */
const messageFlags = [0, 1];

/**
 * The body of a request whose protobuf messages are checked before Connect decodes them. Connect answers bytes that are
 * no message with INTERNAL; they are the client's mistake. Costs a second decoding; enveloped messages leave
 * uncompressed, so that they are decompressed once.
 * Iterating it throws ConnectError, INVALID_ARGUMENT where the body is malformed.
 */
export function checkedBody(body: Body, headers: Headers, method: UniversalHandler["method"], bytesMax: number): Body {
  const type = headers.get("content-type") ?? "";
  // Connect reads malformed JSON as what it is.
  if (/json/i.test(type)) return body;
  if (/^application\/proto/i.test(type)) return checkedMessage(body, headers, method.input, bytesMax);
  const sent = headers.get("grpc-encoding") ?? headers.get("connect-content-encoding");
  return pipe(
    body,
    transformSplitEnvelope(bytesMax),
    transformDecompressEnvelope(compressionOf(sent), bytesMax),
    (envelopes) => checkedEnvelopes(envelopes, method.input),
    transformJoinEnvelopes(),
  );
}

function compressionOf(name: string | null) {
  return compressions.find((compression) => compression.name === name) ?? null;
}

async function* checkedMessage(body: Body, headers: Headers, schema: DescMessage, bytesMax: number): Body {
  const bytes = await readAllBytes(body, bytesMax, headers.get("content-length"));
  const compression = compressionOf(headers.get("content-encoding"));
  check(schema, compression === null ? bytes : await compression.decompress(bytes, bytesMax));
  yield bytes;
}

async function* checkedEnvelopes(
  envelopes: AsyncIterable<EnvelopedMessage>,
  schema: DescMessage,
): AsyncIterable<EnvelopedMessage> {
  for await (const envelope of envelopes) {
    if (messageFlags.includes(envelope.flags)) check(schema, envelope.data);
    yield envelope;
  }
}

/** @throws ConnectError */
function check(schema: DescMessage, bytes: Uint8Array): void {
  try {
    fromBinary(schema, bytes);
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    throw new ConnectError(`parse binary: ${message}`, Code.InvalidArgument);
  }
}
