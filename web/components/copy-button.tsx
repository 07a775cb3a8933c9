import type { RefObject } from "preact";
import { useState } from "preact/hooks";

const copiedMs = 1_500;

interface CopyButtonProps {
  readonly text: string;
  /** What is copied, for readers of the screen. */
  readonly name: string;
  /** Shows the text. */
  readonly source: RefObject<HTMLElement | null>;
}

/** Copies a text that the page shows. */
export function CopyButton({ text, name, source }: CopyButtonProps) {
  const [copied, setCopied] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("Copied");
    } catch {
      // Without a secure origin there is no clipboard: the text is selected instead.
      if (source.current !== null) getSelection()?.selectAllChildren(source.current);
      setCopied("Selected");
    }
    setTimeout(() => setCopied("Copy"), copiedMs);
  };
  return (
    <button type="button" aria-label={`${copied}: ${name}`} onClick={copy}>
      {copied}
    </button>
  );
}
