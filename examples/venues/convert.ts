// Converts recorded frames of a venue into a recording: node dist/examples/venues/convert.js VENUE < frames > recording
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Binance } from "./binance.js";
import { Bitget } from "./bitget.js";
import { Deribit } from "./deribit.js";
import { Kraken } from "./kraken.js";
import { Okx } from "./okx.js";
import { type Converter, RecordingWriter, receivedFrame } from "./recording.js";

const venues: Readonly<Record<string, () => Converter>> = {
  binance: () => new Binance(),
  bitget: () => new Bitget(),
  deribit: () => new Deribit(),
  kraken: () => new Kraken(),
  okx: () => new Okx(),
};

const venue = process.argv[2] ?? "";
const converter = venues[venue]?.();
if (converter === undefined) {
  process.stderr.write(`name a venue: ${Object.keys(venues).join(", ")}\n`);
  process.exit(2);
}

const writer = new RecordingWriter(venue);
for await (const line of createInterface({ input: process.stdin })) {
  const frame = receivedFrame(line);
  const events = frame === undefined ? [] : converter.convert(frame);
  if (frame === undefined || events.length === 0) continue;
  if (!process.stdout.write(writer.block(frame.timeNs, events))) await once(process.stdout, "drain");
}
