import { setImmediate } from "node:timers/promises"

/** Records are read synchronously, some ten for each stack: this many take about a millisecond. */
const ITEMS_PER_TURN = 16

/** Yields the items one by one, and lets other work run after every few. */
export const inTurns = async function* <Item>(items: readonly Item[]): AsyncGenerator<Item, void> {
  for (const [index, item] of items.entries()) {
    if (index % ITEMS_PER_TURN === ITEMS_PER_TURN - 1) await setImmediate()
    yield item
  }
}
