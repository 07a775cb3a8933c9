import type { RefObject } from "preact";
import { useMemo, useRef } from "preact/hooks";

/**
 * The items, in the order in which they were last given while an element has no focus inside, and with new ones at the
 * end while it has. A row that has the focus would lose it by moving.
 */
export function useHeldOrder<T extends { readonly id: string }>(
  element: RefObject<HTMLElement | null>,
  items: readonly T[],
): readonly T[] {
  const last = useRef(items);
  const isHeld = element.current?.contains(document.activeElement) ?? false;
  return useMemo(() => {
    last.current = isHeld ? inOrderOf(last.current, items) : items;
    return last.current;
  }, [items, isHeld]);
}

function inOrderOf<T extends { readonly id: string }>(last: readonly T[], items: readonly T[]): readonly T[] {
  const places = new Map(last.map(({ id }, place) => [id, place]));
  const placeOf = ({ id }: T) => places.get(id) ?? last.length;
  return [...items].sort((a, b) => placeOf(a) - placeOf(b));
}
