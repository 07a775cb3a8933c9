import { useRef, useState } from "preact/hooks";
import { type Call, callText, type Language } from "./call.js";

const copiedMs = 1_500;

/** A call in one language, and what copies it. */
export function CallText({ call, language }: { readonly call: Call; readonly language: Language }) {
  const text = callText(call, language);
  const block = useRef<HTMLPreElement>(null);
  const [copied, setCopied] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("Copied");
    } catch {
      // Without a secure origin there is no clipboard: the text is selected instead.
      if (block.current !== null) getSelection()?.selectAllChildren(block.current);
      setCopied("Selected");
    }
    setTimeout(() => setCopied("Copy"), copiedMs);
  };
  return (
    <div class="call">
      <header>
        <h3>{call.title}</h3>
        <button type="button" aria-label={`${copied}: ${call.title}`} onClick={copy}>
          {copied}
        </button>
      </header>
      <pre ref={block}>{text}</pre>
    </div>
  );
}
