import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** What may be wider than its place, and is scrolled there: by touch, by wheel, and by keyboard where it is wider. */
export function Scroll({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const section = place.current;
    if (section === null) return undefined;
    const resized = new ResizeObserver(() => {
      if (section.scrollWidth > section.clientWidth) section.tabIndex = 0;
      else section.removeAttribute("tabindex");
    });
    for (const each of [section, ...section.children]) resized.observe(each);
    return () => resized.disconnect();
  }, []);
  return (
    <section class="scroll" aria-label={label} ref={place}>
      {children}
    </section>
  );
}
