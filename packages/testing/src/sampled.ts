const IS_ALL = process.env.BERTH_TEST_ALL !== undefined

/** How much is enough to see that it holds; with BERTH_TEST_ALL, as much as is promised. */
export const sized = ({ few, all }: { few: number; all: number }): number => (IS_ALL ? all : few)

/**
 * So many of them, evenly spread, first and last included, or only the last; with BERTH_TEST_ALL, all. What is tried at every step takes
 * minutes for little news: `npm run test:crash` tries them all.
 */
export const sampled = <Item>(all: readonly Item[], count: number): readonly Item[] => {
  if (IS_ALL || all.length <= count) return all
  if (count === 1) return all.slice(-1)
  return Array.from(
    { length: count },
    (_, index) => all[Math.round((index * (all.length - 1)) / (count - 1))] as Item,
  )
}
