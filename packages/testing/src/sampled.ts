/**
 * So many of them, evenly spread, first and last included; with BERTH_TEST_ALL, all. What is tried at every step takes
 * minutes for little news: `npm run test:crash` tries them all.
 */
export const sampled = <Item>(all: readonly Item[], count: number): readonly Item[] => {
  if (process.env.BERTH_TEST_ALL !== undefined || all.length <= count) return all
  return Array.from(
    { length: count },
    (_, index) => all[Math.round((index * (all.length - 1)) / (count - 1))] as Item,
  )
}
