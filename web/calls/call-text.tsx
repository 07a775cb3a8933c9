import { useRef } from "preact/hooks";
import { CopyButton } from "../components/copy-button.js";
import { type Call, callText, type Language } from "./call.js";

/** A call in one language, and what copies it. */
export function CallText({ call, language }: { readonly call: Call; readonly language: Language }) {
  const text = callText(call, language);
  const block = useRef<HTMLPreElement>(null);
  return (
    <div class="call">
      <header>
        <h3>{call.title}</h3>
        <CopyButton text={text} name={call.title} source={block} />
      </header>
      <pre ref={block}>{text}</pre>
    </div>
  );
}
