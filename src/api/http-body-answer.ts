import type { MessageShape } from "@bufbuild/protobuf";
import { type HttpBody, HttpBodySchema } from "../../gen/google/api/httpbody_pb.js";
import type { Answer, Form } from "../domain/answer.js";

type HttpBodyMessage = MessageShape<typeof HttpBodySchema>;

const tagContentType = 0x0a;
const tagData = 0x12;

/**
 * A `google.api.HttpBody` without extensions that writes its encodings itself: a file passes once, in many pieces, and
 * the general way through base64 in JavaScript costs more than everything else together.
 */
export class HttpBodyAnswer implements Answer<typeof HttpBodySchema> {
  readonly schema = HttpBodySchema;
  readonly version = undefined;
  readonly eventId = undefined;
  readonly #contentType: string;
  readonly #data: Buffer;

  /** `contentType` is a media type: ASCII without quotes, shorter than 128 characters. */
  constructor(contentType: string, data: Buffer) {
    this.#contentType = contentType;
    this.#data = data;
  }

  message(): HttpBodyMessage {
    const message: HttpBody = {
      $typeName: "google.api.HttpBody",
      contentType: this.#contentType,
      data: this.#data,
      extensions: [],
    };
    return message;
  }

  binary(): Uint8Array {
    const type = this.#contentType;
    const head = [tagContentType, type.length, ...Buffer.from(type, "latin1")];
    if (this.#data.length === 0) return Uint8Array.from(head);
    head.push(tagData);
    let length = this.#data.length;
    for (; length > 127; length = Math.floor(length / 128)) head.push((length % 128) | 128);
    head.push(length);
    return Buffer.concat([Uint8Array.from(head), this.#data]);
  }

  json(): Uint8Array {
    const head = `{"contentType":"${this.#contentType}","data":"`;
    const tail = '","extensions":[]}';
    const base64 = this.#data.toString("base64");
    return Buffer.from(head + base64 + tail, "latin1");
  }

  as(form: Form): Uint8Array {
    return form.encode(this);
  }
}
